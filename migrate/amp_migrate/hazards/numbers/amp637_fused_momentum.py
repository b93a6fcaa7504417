"""A fused SGD with momentum, whose first step a loss scaler may skip."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.flow.domain.atoms import Obj
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP637",
    name="fused-momentum",
    summary="a fused SGD with momentum is stepped by a gradient scaler",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
        - optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
        + optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "A scaler leaves it to a fused optimizer to skip a step. Where gradients overflow at the first one, as they "
        "may at a scale of 65536, the fused SGD of PyTorch 2.6 and 2.15 leaves momentum buffers behind that nothing "
        "was written to, and the next step takes them for momentum: weights become NaN, or anything. Without "
        "`fused=True` the scaler skips the step itself; the fused Adam keeps its states as they were."
    ),
    sources=("https://github.com/LibreYOLO/libreyolo/pull/771",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
OF_MODELS = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every such optimizer that a scaler steps, or will once the script's steps are moved."""
    calls = [(script.file, call) for call in script.file.calls] if script.moved else list(_stepped(script))
    for file, call in calls:
        if file.names.callee(call) == "torch.optim.SGD" and _is_fused(call) and _has_momentum(call):
            yield Hazard(
                call,
                "a fused SGD has no momentum but what lay in memory where its first step is skipped for an overflow",
                "drop fused=True",
                file=file,
            )


def _stepped(script: Script) -> Iterator[tuple[File, cst.Call]]:
    """The calls that make what scalers step in a file."""
    flowing = script.flowing
    for event in flowing.questions.events(Act.SCALER_STEP) if script.courses else ():
        if event.site.file == script.file.name:
            made = (flowing.interpreted.place(each.site) for each in event.optimizer if isinstance(each, Obj))
            yield from ((file, node) for file, node in filter(None, made) if isinstance(node, cst.Call))


def _is_fused(call: cst.Call) -> bool:
    given = (each for each in call.args if each.keyword is not None and each.keyword.value == "fused")
    return any(is_constant(each.value, "True") for each in given)


def _has_momentum(call: cst.Call) -> bool:
    value = argument(call, "momentum", 2)
    is_zero = isinstance(value, (cst.Integer, cst.Float)) and not value.evaluated_value
    return value is not None and not is_zero
