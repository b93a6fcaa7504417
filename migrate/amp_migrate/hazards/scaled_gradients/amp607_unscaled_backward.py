"""A scaler steps on gradients of a loss that it has not scaled."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.scaler_events import Act
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Gradients, Stage

RULE = Rule(
    code="AMP607",
    name="unscaled-backward",
    summary="a scaler steps on gradients of a loss that was not scaled",
    before=example(
        """
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            optimizer.zero_grad()
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (model(x) - y).square().mean()
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    after=example(
        """
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
        """
    ),
    why=(
        "`scaler.step` divides the gradients by the scale, 65536 at first. Gradients that were never multiplied by it "
        "become so small that the model hardly moves."
    ),
    sources=(f"{EXAMPLES}#typical-mixed-precision-training",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss whose gradients always go through the scaler's step, and every crossed scaler."""
    for course in script.courses:
        for event, seen in course.reached(Act.UNSCALE, Act.SCALER_STEP):
            if seen.always(lambda state: state.is_others and state.stage is Stage.READY):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} divides gradients that another scaler has scaled",
                    "let the scaler that scaled the loss unscale, step and update",
                )
                break
        backwards = course.of(Act.BACKWARD)
        for event, seen in course.reached(Act.SCALER_STEP):
            if (
                not backwards
                or course.of(Act.SCALED_BACKWARD)
                or not seen.always(lambda state: state.gradients is Gradients.TRUE)
            ):
                continue
            before = [b for b in backwards if script.file.tree.order[b.node] < script.file.tree.order[event.node]]
            place = (before or backwards)[-1]
            backward, step = script.file.tree.quote(place.node), script.file.tree.quote(event.node)
            yield Hazard(
                place.node,
                f"{backward} is not scaled, but {step} unscales",
                f"write {course.scaler}.scale(loss).backward() with this loss",
            )
