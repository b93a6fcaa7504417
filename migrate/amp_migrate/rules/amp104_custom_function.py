"""`torch.cuda.amp.custom_fwd` and `custom_bwd` are those of `torch.amp`, which must be told the device.

The old decorators work bare; the new ones do not, so `@custom_fwd` becomes a call.
"""

from amp_migrate.report.rule import Rule
from amp_migrate.rules import arguments
from amp_migrate.rules.rule import Rename

RULE = Rule(
    code="AMP104",
    name="custom-function",
    summary="torch.cuda.amp.custom_fwd and custom_bwd are deprecated since PyTorch 2.4",
    before="@custom_fwd",
    after='@custom_fwd(device_type="cuda")',
    why="The new decorators must be told the device, so the bare `@custom_fwd` becomes a call.",
    since=(2, 4),
)
RENAMES = tuple(
    Rename(f"torch.cuda.amp.{path}{name}", f"torch.amp.{name}", arguments.with_device_type("cuda"), bare_call=True)
    for name in ("custom_fwd", "custom_bwd")
    for path in ("", "autocast_mode.")
)
