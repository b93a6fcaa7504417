"""A scaler steps on gradients of a loss that it has not scaled."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.machine import MIXED, SCALED, TRUE
from amp_migrate.flow.domain.tensor import PURE
from amp_migrate.flow.pytorch.gradients import AGAIN
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
_HINT = "write {}.scale(loss).backward() with this loss"


def detect(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss whose gradients always go through the scaler's step, and every crossed scaler."""
    yield from _added(script)
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
                _HINT.format(course.scaler),
            )


def _added(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss whose gradients are added to scaled ones, and always divided with them."""
    file, flowing = script.file, script.flowing
    told: set[object] = set()
    if not script.scalers.works:
        return
    backwards = flowing.questions.events(flow.Act.BACKWARD)
    plain = [event for event in backwards if event.units == PURE]
    scaled = [event for event in backwards if event.units != PURE]
    for event in flowing.questions.events(flow.Act.UNSCALE, flow.Act.SCALER_STEP):
        divides = flowing.node_at(file, event.site)
        if not isinstance(divides, cst.Call) or not isinstance(divides.func, cst.Attribute):
            continue
        for backward in plain:
            node = flowing.node_at(file, backward.site)
            both = backward.optimizer & event.optimizer
            is_mixed = any(_always_mixed(event, each) and _adds(backward, scaled, each) for each in both)
            if node is not None and node not in told and is_mixed:
                told.add(node)
                added, by = file.tree.quote(node), file.tree.quote(divides)
                message = f"{added} is not scaled, but {by} unscales it with what is"
                yield Hazard(node, message, _HINT.format(file.tree.code(divides.func.value)))


def _adds(plain: flow.Event, scaled: list[flow.Event], optimizer: object) -> bool:
    """Whether the gradients of a plain loss meet scaled ones, or scaled ones meet them."""
    return _finds(plain, optimizer, SCALED) or any(_finds(each, optimizer, TRUE) for each in scaled)


def _finds(backward: flow.Event, optimizer: object, kind: str) -> bool:
    known = [machine.grad(optimizer) for machine, _ in backward.states]
    return any(each is not None and each.kind == kind and not each.spent and not each.guessed for each in known)


def _always_mixed(event: flow.Event, optimizer: object) -> bool:
    """Whether true gradients and scaled ones are in an optimizer's on every way to a place, at first or again."""
    for again in (None, True):
        known = [machine.grad(optimizer) for machine, _ in event.states if machine.get(AGAIN) == again]
        if known and all(each is not None and each.kind == MIXED and not each.guessed for each in known):
            return True
    return False
