"""One autocast region holds a whole training loop."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.hazards.training import looping_regions
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP621",
    name="region-around-loop",
    summary="one autocast region holds a whole training loop",
    before=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    for x, y in loader:\n"
        "        loss = criterion(model(x), y)\n"
        "        ...\n"
        "        scaler.step(optimizer)"
    ),
    after=(
        "for x, y in loader:\n"
        '    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "        loss = criterion(model(x), y)\n"
        "    ...\n"
        "    scaler.step(optimizer)"
    ),
    why=(
        "Autocast keeps the low-precision copies of the weights until its outermost region ends. In a region that "
        "holds the loop, every iteration computes with the copies of the first: the loss stands still, and "
        "nothing is raised."
    ),
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
