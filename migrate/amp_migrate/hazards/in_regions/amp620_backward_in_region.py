"""`backward()` or `step()` runs inside an autocast region."""

from __future__ import annotations

from collections.abc import Iterator

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
            "end the region behind the loss: take this line, and what follows it, out of the with",
        )
    yield from _in_regions_of_callers(script)


def _in_regions_of_callers(script: Script) -> Iterator[Hazard]:
    """The backwards that run inside a region which another function has opened, in whichever file they are."""
    flowing, name = script.flowing, script.file.name
    for event in flowing.questions.events(Act.BACKWARD) if script.courses else ():
        if event.context is None or not event.context.is_low_in_training:
            continue
        regions = event.context.cuda.regions
        is_own = event.site.file == name or any(each.file == name for each in regions)
        if not is_own or any(map(event.code.has, regions)):
            continue
        where = flowing.interpreted.place(event.site)
        if where is not None:
            file, call = where
            here = {each.file for each in regions} == {file.name}
            line = f" of line {min(each.line for each in regions)}" if here else ""
            yield Hazard(
                call,
                f"{file.tree.quote(call)} runs inside the autocast region{line} that its caller opens",
                "open the region here, round the forward and the loss alone, and none around the call",
                file=file,
            )
