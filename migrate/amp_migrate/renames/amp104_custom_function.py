"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are those of `torch.amp`, which must be told the device.

The old decorators work bare; the new ones do not, so `@custom_fwd` becomes a call.
"""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP104",
    name="custom-function",
    summary="torch.cuda.amp.custom_fwd and custom_bwd are deprecated since PyTorch 2.4",
    example="""
          import torch
        - from torch.cuda.amp import custom_bwd, custom_fwd
        + from torch.amp import custom_bwd, custom_fwd


          class Double(torch.autograd.Function):
              @staticmethod
        -     @custom_fwd
        +     @custom_fwd(device_type="cuda")
              def forward(ctx, x):
                  return 2 * x

              @staticmethod
        -     @custom_bwd
        +     @custom_bwd(device_type="cuda")
              def backward(ctx, grad):
                  return 2 * grad
        """,
    why="The new decorators must be told the device, so the bare `@custom_fwd` becomes a call.",
    sources=(DEPRECATIONS, "https://github.com/pytorch/pytorch/pull/126531"),
    since=(2, 4),
)
RENAMES = tuple(
    Rename(f"torch.cuda.amp.{path}{name}", f"torch.amp.{name}", convert_arguments.with_device_type, bare_call=True)
    for name in ("custom_fwd", "custom_bwd")
    for path in ("", "autocast_mode.")
)
