"""Functions that read or set autocast's state for one device take the device as an argument now."""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP105",
    name="autocast-state",
    summary="the autocast functions with a device in their name are deprecated since PyTorch 2.4",
    example="""
          import torch


          def as_computed(x):
        -     return x.to(torch.get_autocast_gpu_dtype())
        +     return x.to(torch.get_autocast_dtype("cuda"))
        """,
    why="One function with a device argument has taken the place of one function for each device.",
    sources=(DEPRECATIONS,),
    since=(2, 4),
)
_DEVICES = {"gpu": "cuda", "cpu": "cpu", "xla": "xla", "ipu": "ipu"}
RENAMES = (
    *(
        Rename(
            f"torch.{verb}_autocast_{word}_dtype",
            f"torch.{verb}_autocast_dtype",
            convert_arguments.device_first(device),
        )
        for verb in ("get", "set")
        for word, device in _DEVICES.items()
    ),
    *(
        Rename(
            f"torch.{verb}_autocast_{word}_enabled",
            f"torch.{verb}_autocast_enabled",
            convert_arguments.device_first(device),
        )
        for verb in ("is", "set")
        for word, device in _DEVICES.items()
        if word != "gpu"
    ),
)
