"""The scale is updated between the backward pass and the step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.hazards.events import Act
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.hazards.states import Gradients
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP605",
    name="outdated-scale",
    summary="the scale is updated between a backward pass and the step on its gradients",
    before=(
        "scaler.scale(loss_g + loss_d).backward()\n"
        "scaler.step(optimizer_g)\n"
        "scaler.update()\n"
        "scaler.step(optimizer_d)\n"
        "scaler.update()"
    ),
    after=(
        "scaler.scale(loss_g + loss_d).backward()\nscaler.step(optimizer_g)\nscaler.step(optimizer_d)\nscaler.update()"
    ),
    why=(
        "`step` divides the gradients by the scale of now. Where `update()` has changed it since `backward()`, they "
        "are divided by another number than they were multiplied by."
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every step whose gradients always are of an older scale."""
    for course in script.courses:
        for event, seen in course.reached(Act.SCALER_STEP):
            if course.of(Act.SCALED_BACKWARD) and seen.always(
                lambda state: state.outdated and state.gradients is not Gradients.UNKNOWN
            ):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} divides by a scale that is newer than the gradients",
                    f"move {course.scaler}.update() behind the last step of the iteration",
                )
