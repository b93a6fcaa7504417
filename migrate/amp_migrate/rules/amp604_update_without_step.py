"""`update()` runs although no optimizer has stepped since the last one."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.events import Act
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP604",
    name="update-without-step",
    summary="update() runs although no optimizer has stepped since the last one",
    before=("scaler.step(optimizer_g)\nscaler.update()\nscaler.update()"),
    after="scaler.step(optimizer_g)\nscaler.update()",
    why=(
        "`update()` goes by whether the gradients were finite, which `unscale_` and `step` have looked at. "
        'With nothing looked at since the last update it raises "No inf checks were recorded prior to update".'
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every update that has nothing to go by, beside a step that shows where one is wanted."""
    for course in script.courses:
        if not course.of(Act.SCALER_STEP):
            continue
        for event, seen in course.reached(Act.UPDATE):
            if seen.always(lambda state: state.checked is False):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} has no step to go by since the last one, and raises",
                    "remove it: update once in every iteration, after the last step",
                )
