"""`_cast` of `torch.cuda.amp.autocast_mode`, private and still met, takes the device as its second argument now."""

from amp_migrate.report.rule import Rule
from amp_migrate.rules import arguments
from amp_migrate.rules.rule import Rename

RULE = Rule(
    code="AMP106",
    name="cast",
    summary="torch.cuda.amp.autocast_mode._cast is deprecated since PyTorch 2.4",
    before="args = torch.cuda.amp.autocast_mode._cast(args, torch.float32)",
    after='args = torch.amp.autocast_mode._cast(args, "cuda", torch.float32)',
    why="One function with a device argument has taken the place of one function for each device.",
    since=(2, 4),
)
RENAMES = (
    Rename("torch.cuda.amp.autocast_mode._cast", "torch.amp.autocast_mode._cast", arguments.device_second("cuda")),
)
