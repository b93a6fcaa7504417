"""A scaler steps an optimizer that computes its loss anew in a closure."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.course import Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP609",
    name="closure",
    summary="a scaler steps an optimizer that computes its loss anew in a closure",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.LBFGS(model.parameters())
        - scaler = torch.amp.GradScaler("cuda")


          def closure():
              optimizer.zero_grad()
        -     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                  loss = (model(x) - y).square().mean()
        -     scaler.scale(loss).backward()
        +     loss.backward()
              return loss


        - scaler.step(optimizer, closure)
        - scaler.update()
        + optimizer.step(closure)
        """,
    why=(
        "A closure computes new gradients inside the step, which no scaler has looked at. `scaler.step` takes none, "
        "and LBFGS cannot do without. bfloat16 needs no scaler."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_LBFGS = "torch.optim.LBFGS"


def detect(script: Script) -> Iterator[Hazard]:
    """Every step of a scaler with a closure, or on LBFGS."""
    for course in script.courses:
        for event in course.of(Act.SCALER_STEP):
            if _has_closure(event) or _is_lbfgs(script, event):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} needs a closure, which no scaler takes",
                    "compute in bfloat16 without a scaler, and write optimizer.step(closure)",
                )


def _has_closure(event: Event) -> bool:
    assert isinstance(event.node, cst.Call)
    return any(
        (arg.keyword is not None and arg.keyword.value == "closure")
        or (index > 0 and isinstance(arg.value, cst.Name) and "closure" in arg.value.value)
        or (index > 0 and isinstance(arg.value, cst.Lambda))
        for index, arg in enumerate(event.node.args)
    )


def _is_lbfgs(script: Script, event: Event) -> bool:
    assert isinstance(event.node, cst.Call)
    if not event.node.args:
        return False
    bindings = script.roles.bindings(script.file, event.node.args[0].value)
    return bool(bindings) and all(script.file.names.callee(each.value) == _LBFGS for each in bindings)
