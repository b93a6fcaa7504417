"""`torch.cpu.amp.autocast(...)` is `torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16, ...)`."""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP, DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP102",
    name="cpu-autocast",
    summary="torch.cpu.amp.autocast is deprecated since PyTorch 2.4",
    example="""
          import torch


          def predict(model, x):
        -     with torch.cpu.amp.autocast():
        +     with torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16):
                  return model(x)
        """,
    why="As AMP101, for the CPU, where the default was bfloat16.",
    sources=(DEPRECATIONS, f"{AMP}#autocasting"),
)
RENAMES = tuple(
    Rename(old, "torch.amp.autocast", convert_arguments.autocast("cpu"), is_type=True)
    for old in ("torch.cpu.amp.autocast", "torch.cpu.amp.autocast_mode.autocast")
)
