"""The scale is updated between the backward pass and the step."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Gradients

RULE = Rule(
    code="AMP605",
    name="outdated-scale",
    summary="the scale is updated between a backward pass and the step on its gradients",
    before=example(
        """
        import torch

        generator, critic = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
        optimizer_g = torch.optim.SGD(generator.parameters(), lr=0.1)
        optimizer_d = torch.optim.SGD(critic.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (critic(generator(x)) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer_g)
            scaler.update()
            scaler.step(optimizer_d)
            scaler.update()
        """
    ),
    after=example(
        """
        import torch

        generator, critic = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
        optimizer_g = torch.optim.SGD(generator.parameters(), lr=0.1)
        optimizer_d = torch.optim.SGD(critic.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")

        for x, y in loader:
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                loss = (critic(generator(x)) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer_g)
            scaler.step(optimizer_d)
            scaler.update()
        """
    ),
    why=(
        "`step` divides the gradients by the scale of now. Where `update()` has changed it since `backward()`, they "
        "are divided by another number than they were multiplied by."
    ),
    sources=(f"{EXAMPLES}#working-with-multiple-models-losses-and-optimizers",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every step whose gradients always are of an older scale."""
    for course in script.courses:
        for event, seen in course.reached(Act.SCALER_STEP):
            if course.backwards and seen.always(
                lambda state: state.outdated and state.gradients is not Gradients.UNKNOWN
            ):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} divides by a scale that is newer than the gradients",
                    f"move {course.scaler}.update() behind the last step of the iteration",
                )
