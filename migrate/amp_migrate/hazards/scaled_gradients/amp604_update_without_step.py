"""`update()` runs although no optimizer has stepped since the last one."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP604",
    name="update-without-step",
    summary="update() runs although no optimizer has stepped since the last one",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        -     scaler.update()
        """,
    why=(
        "`update()` goes by whether the gradients were finite, which `unscale_` and `step` have looked at. "
        'With nothing looked at since the last update it raises "No inf checks were recorded prior to update".'
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every update that has nothing to go by, beside a step that shows where one is wanted."""
    stepping = {atom for each in script.flowing.questions.events(Act.SCALER_STEP) for atom in each.scaler}
    for course in script.courses if stepping else ():
        for event, seen in course.reached(Act.UPDATE):
            if event.scalers <= stepping and seen.always(lambda state: state.checked is False):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} has no step to go by since the last one, and raises",
                    "remove it: update once in every iteration, after the last step",
                )
