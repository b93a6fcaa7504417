"""`torch.cuda.amp.autocast(...)` is `torch.amp.autocast(device_type="cuda", dtype=torch.float16, ...)`.

The old default dtype is written out: the new class takes it from the process, and inside a bfloat16 region that is
not float16.
"""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP, DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP101",
    name="cuda-autocast",
    summary="torch.cuda.amp.autocast is deprecated since PyTorch 2.4",
    example="""
          import torch


          def predict(model, x, use_amp):
        -     with torch.cuda.amp.autocast(enabled=use_amp):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):
                  return model(x)
        """,
    why=(
        "The first positional argument of the new class is the device, where it was `enabled`, so everything goes by "
        "keyword. "
        "The old class always meant float16; the new one takes the dtype from the process, so it is written out."
    ),
    sources=(DEPRECATIONS, f"{AMP}#autocasting"),
)
RENAMES = tuple(
    Rename(old, "torch.amp.autocast", convert_arguments.autocast("cuda"), is_type=True)
    for old in ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast")
)
