"""`torch.cpu.amp.autocast(...)` is `torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16, ...)`."""

from amp_migrate.report.rule import Rule
from amp_migrate.rules import arguments
from amp_migrate.rules.rule import Rename

RULE = Rule(
    code="AMP102",
    name="cpu-autocast",
    summary="torch.cpu.amp.autocast is deprecated since PyTorch 2.4",
    before="with torch.cpu.amp.autocast():",
    after='with torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16):',
    why="As AMP101, for the CPU, where the default was bfloat16.",
)
RENAMES = tuple(
    Rename(old, "torch.amp.autocast", arguments.autocast("cpu"), is_type=True)
    for old in ("torch.cpu.amp.autocast", "torch.cpu.amp.autocast_mode.autocast")
)
