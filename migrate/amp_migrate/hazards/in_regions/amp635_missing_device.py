"""`torch.amp.autocast` is called without the device type that it needs."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP635",
    name="missing-device",
    summary="torch.amp.autocast() is called without a device type, and raises",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)


          @torch.no_grad()
          def predict(x):
        -     with torch.amp.autocast(enabled=True):
        +     with torch.amp.autocast(device_type="cuda", enabled=True):
                  return model(x)
        """,
    why=(
        "`torch.cuda.amp.autocast()` is for CUDA by its name, `torch.amp.autocast(device_type)` and `torch.autocast` "
        "have to be told: without it they raise TypeError as soon as they are called, which in a validation is after "
        "the first epoch. So do `torch.amp.custom_fwd()` and `custom_bwd()`."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False
_NEEDING = frozenset(f"torch.{name}" for name in ("autocast", "amp.autocast", "amp.custom_fwd", "amp.custom_bwd"))


def detect(script: Script) -> Iterator[Hazard]:
    """Every such call that gives nothing that could be the device type."""
    file = script.file
    for call in file.calls:
        is_given = any(arg.star or arg.keyword is None or arg.keyword.value == "device_type" for arg in call.args)
        if not is_given and file.names.callee(call) in _NEEDING:
            yield Hazard(
                call,
                f"{file.tree.quote(call)} raises: it is not told for which device type",
                f'write device_type="{script.settings.device_type}" into it',
            )
