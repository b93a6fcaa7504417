"""`backward()` or `step()` runs inside an autocast region."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.training import looping_regions, training_calls

RULE = Rule(
    code="AMP620",
    name="backward-in-region",
    summary="backward() or step() runs inside an autocast region",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
        -         scaler.scale(loss).backward()
        +     scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "A region is for forward and loss. The backward pass runs each op in the dtype of its forward by itself; under "
        "autocast, what hooks and custom functions compute is cast once more, and what optimizers compute as well. "
        "PyTorch's documentation advises against it."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False
_BEHIND = "end the region behind the loss: take this line, and what follows it, out of the with"
_OPEN_HERE = "open the region here, round the forward and the loss alone, and none around the call"


def detect(script: Script) -> Iterator[Hazard]:
    """The first backward or step in each region, but for regions that hold a whole loop (AMP621)."""
    told = {region.node for region in looping_regions(script)}
    for call in training_calls(script.file):
        region = script.region_around(call)
        if region is None or region.node in told:
            continue
        told.add(region.node)
        yield Hazard(
            call,
            f"{script.file.tree.quote(call)} runs inside an autocast region",
            _BEHIND,
        )
    yield from _in_regions_of_callers(script)


def _in_regions_of_callers(script: Script) -> Iterator[Hazard]:
    """The backwards that run inside a region which another function has opened, or made, in whichever file they are."""
    flowing, name, written = script.flowing, script.file.name, {each.call for each in script.regions.values()}
    for event in flowing.questions.events(Act.BACKWARD) if script.courses else ():
        if event.context is None or not event.context.is_low_in_training:
            continue
        regions = event.context.cuda.regions
        is_own = event.site.file == name or any(each.file == name for each in regions)
        inside = [flowing.interpreted.node_at(script.file, each) for each in regions if event.code.has(each)]
        where = flowing.interpreted.place(event.site)
        if where is None or not is_own or any(each is None or each in written for each in inside):
            continue
        file, call = where
        around = takewhile(lambda node: not isinstance(node, cst.FunctionDef), file.tree.ancestors(call))
        held = next((each for each in around if isinstance(each, cst.With) and flowing.opens_region(file, each)), None)
        here = {each.file for each in regions} == {file.name}
        line = f" of line {min(each.line for each in regions)}" if here else ""
        what, hint = f"region{line} that its caller opens", _OPEN_HERE
        if held is not None:
            what, hint = f"region of {', '.join(file.tree.quote(each.item) for each in held.items)}", _BEHIND
        yield Hazard(call, f"{file.tree.quote(call)} runs inside the autocast {what}", hint, file=file)
