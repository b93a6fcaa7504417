"""A module in an autocast region is given inputs that were cast by hand."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.reaching import reaching
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.training import is_step, training_calls

RULE = Rule(
    code="AMP624",
    name="half-inputs",
    summary="a module in an autocast region is given inputs that were cast by hand",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -         loss = (model(x.half()) - y).square().mean()
        +         loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "Autocast casts what each op needs. What is cast by hand loses precision for the ops that need float32, and "
        "meets float32 weights as soon as the region is switched off, where it raises. "
        "PyTorch's documentation advises against it."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False
_CASTS = frozenset({"half", "bfloat16"})
_DTYPES = frozenset({"torch.float16", "torch.half", "torch.bfloat16"})


def detect(script: Script) -> Iterator[Hazard]:
    """Every cast to low precision in the arguments of a module that a region runs, in a file that trains."""
    file = script.file
    if not script.regions or not any(map(is_step, training_calls(file))):
        return
    found: dict[cst.BaseExpression, None] = {}
    for region in script.regions.values():
        for call in file.calls:
            if script.region_around(call) is region and script.roles.calls_module(file, call):
                given = (_value(file, arg.value) for arg in call.args)
                found |= dict.fromkeys(each for each in given if _is_cast(file, each))
    for cast in found:
        message = f"{file.tree.quote(cast)} casts by hand what the region casts where it is needed"
        yield Hazard(cast, message, "pass it as it is")


def _value(file: File, given: cst.BaseExpression) -> cst.BaseExpression:
    """What is given, or what it is called by where that can be one value only."""
    bindings = reaching(file.names, given) if isinstance(given, cst.Name) else []
    value = bindings[0].value if len(bindings) == 1 else None
    return given if value is None else value


def _is_cast(file: File, value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute) or file.names.full(value.func):
        return False
    method = value.func.attr.value
    if method == "to":
        return any(file.names.full(arg.value) in _DTYPES for arg in value.args)
    return method in _CASTS and not value.args
