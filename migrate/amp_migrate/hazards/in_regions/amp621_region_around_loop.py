"""One autocast region holds a whole training loop."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.training import looping_regions

RULE = Rule(
    code="AMP621",
    name="region-around-loop",
    summary="one autocast region holds a whole training loop",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

        - with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -     for x, y in loader:
        -         optimizer.zero_grad()
        + for x, y in loader:
        +     optimizer.zero_grad()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
        -         scaler.scale(loss).backward()
        -         scaler.step(optimizer)
        -         scaler.update()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "Autocast keeps the low-precision copies of the weights until its outermost region ends. In a region that "
        "holds the loop, every iteration computes with the copies of the first: the loss stands still, and "
        "nothing is raised."
    ),
    sources=(f"{AMP}#autocasting",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every region around a loop that steps an optimizer."""
    for region in looping_regions(script):
        yield Hazard(
            region.node,
            "an autocast region holds the loop that trains, and keeps its first copies of the weights to the end",
            "open the region inside the loop, around forward and loss",
        )
