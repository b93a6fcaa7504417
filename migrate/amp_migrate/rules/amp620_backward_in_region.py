"""`backward()` or `step()` runs inside an autocast region."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.hazards.training import looping_regions, training_calls
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP620",
    name="backward-in-region",
    summary="backward() or step() runs inside an autocast region",
    before=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    loss = criterion(model(x), y)\n"
        "    scaler.scale(loss).backward()"
    ),
    after=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    loss = criterion(model(x), y)\n"
        "scaler.scale(loss).backward()"
    ),
    why=(
        "A region is for forward and loss. The backward pass runs each op in the dtype of its forward by itself; under "
        "autocast, what hooks and custom functions compute is cast once more, and what optimizers compute as well. "
        "PyTorch's documentation advises against it."
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """The first backward or step in each region, but for regions that hold a whole loop (AMP621)."""
    told = {region.node for region in looping_regions(script)}
    for call in training_calls(script.file, script.roles):
        region = script.region_around(call)
        if region is None or region.node in told:
            continue
        told.add(region.node)
        yield Hazard(
            call,
            f"{script.file.tree.quote(call)} runs inside an autocast region",
            "end the region behind the loss: take this line, and what follows it, out of the with",
        )
