"""A number is made of a loss that is multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.atoms import tensors_in
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import is_scaled
from amp_migrate.trees.nodes import find, last_word

RULE = Rule(
    code="AMP636",
    name="scaled-loss-read",
    summary="a number is read of a loss that is multiplied by the loss scale",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
        -     loss = scaler.scale(loss)
        -     loss.backward()
        +     scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
              log(loss.item())
        """,
    why=(
        "What `scaler.scale` gives is for `backward` alone: it is 65536 times the loss at first. Whenever the scale "
        "grows or shrinks, so does what is logged, summed up over an epoch, or compared with the best so far."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_METHODS = frozenset({"item", "tolist"})
_ASKING = frozenset({"isfinite", "isinf", "isnan"})


def detect(script: Script) -> Iterator[Hazard]:
    """Every number of a loss that is scaled for certain, in functions that do not ask for the scale."""
    file = script.file
    for call in file.calls if script.courses else ():
        loss = _read(call)
        losses = [] if loss is None else list(tensors_in(script.flowing.value_of(file, loss)))
        if not losses or not all(map(is_scaled, losses)) or _is_taken_out(script, call):
            continue
        yield Hazard(
            call,
            f"{file.tree.quote(call)} is a loss multiplied by the loss scale",
            "read the loss itself, and let scale() stand where it goes backward: scaler.scale(loss).backward()",
        )


def _read(call: cst.Call) -> cst.BaseExpression | None:
    """What a call makes a number of."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not call.args:
        return call.func.value
    is_float = isinstance(call.func, cst.Name) and call.func.value == "float" and len(call.args) == 1
    return call.args[0].value if is_float else None


def _is_taken_out(script: Script, call: cst.Call) -> bool:
    """Whether the function asks for the scale, and may divide by it, or the number is only asked whether it is one."""
    tree = script.file.tree
    around = (each for each in tree.ancestors(call) if isinstance(each, cst.Call))
    is_asked = any(last_word(each.func) in _ASKING for each in around)
    return is_asked or any(last_word(each.func) == "get_scale" for each in find(tree.body(call), cst.Call))
