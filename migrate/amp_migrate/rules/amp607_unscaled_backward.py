"""A scaler steps on gradients of a loss that it has not scaled."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.events import Act
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.hazards.states import Gradients
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP607",
    name="unscaled-backward",
    summary="a scaler steps on gradients of a loss that was not scaled",
    before="loss.backward()\nscaler.step(optimizer)\nscaler.update()",
    after="scaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()",
    why=(
        "`scaler.step` divides the gradients by the scale, 65536 at first. Gradients that were never multiplied by it "
        "become so small that the model hardly moves."
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss whose gradients always go through the scaler's step."""
    for course in script.courses:
        backwards = course.of(Act.BACKWARD)
        for event, seen in course.reached(Act.SCALER_STEP):
            if course.of(Act.SCALED_BACKWARD) or not seen.always(lambda state: state.gradients is Gradients.TRUE):
                continue
            before = [b for b in backwards if script.file.tree.order[b.node] < script.file.tree.order[event.node]]
            place = (before or backwards)[-1]
            backward, step = script.file.tree.quote(place.node), script.file.tree.quote(event.node)
            yield Hazard(
                place.node,
                f"{backward} is not scaled, but {step} unscales",
                f"write {course.scaler}.scale(loss).backward() with this loss",
            )
