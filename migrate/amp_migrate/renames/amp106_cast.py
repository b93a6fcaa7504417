"""`_cast` of `torch.cuda.amp.autocast_mode`, private and still met, takes the device as its second argument now."""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP106",
    name="cast",
    summary="torch.cuda.amp.autocast_mode._cast is deprecated since PyTorch 2.4",
    example="""
          import torch


          def call(function, args):
        -     return function(*torch.cuda.amp.autocast_mode._cast(args, torch.float32))
        +     return function(*torch.amp.autocast_mode._cast(args, "cuda", torch.float32))
        """,
    why="One function with a device argument has taken the place of one function for each device.",
    sources=(DEPRECATIONS,),
    since=(2, 4),
)
RENAMES = (
    Rename("torch.cuda.amp.autocast_mode._cast", "torch.amp.autocast_mode._cast", convert_arguments.device_second),
)
