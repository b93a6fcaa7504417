"""Gradients are clipped or read while they are still multiplied by the loss scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.chains import exclude, steady
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import SCALED, UNSCALED, Machine
from amp_migrate.flow.domain.tensor import PURE
from amp_migrate.flow.questions import Questions
from amp_migrate.flow.source import Code
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Gradients, Seen
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import find

RULE = Rule(
    code="AMP601",
    name="read-before-unscale",
    summary="gradients are clipped or read while they are still scaled",
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
            scaler.scale(loss).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        """
    ),
    why=(
        "Until `unscale_`, gradients are multiplied by the loss scale, 65536 at first. A norm of 1.0 to clip to is "
        "then one of 1/65536, and training all but stops; a logged norm means nothing. "
        "The line is added where the clipping stands in one block with the step of the only optimizer."
    ),
    sources=(f"{EXAMPLES}#gradient-clipping",),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True


def detect(script: Script) -> Iterator[Hazard]:
    """Every first read of scaled gradients before a step."""
    is_told = False
    for course in script.courses:
        if not course.is_alone or _divides_by_hand(course):
            continue
        told: set[Event] = set()
        for event, seen in course.reached(flow.Act.CLIP):
            step = _step_after(course, event)
            if step is None or step in told or not _is_scaled(seen) or _is_without_scale(script, course, event):
                continue
            told.add(step)
            what = script.file.tree.quote(event.node)
            line = f"{course.scaler}.unscale_({step.optimizer})"
            yield Hazard(
                event.node,
                f"{what} sees gradients that are still multiplied by the loss scale",
                f"write {line} before it, and nowhere else until {course.scaler}.update()",
                _repair(script, course, event, step, line),
            )
            is_told = True
    if not is_told:
        yield from _on_some_way(script)


def _on_some_way(script: Script) -> Iterator[Hazard]:
    """Every clipping of scaled gradients on a way that no switch of mixed precision decides about.

    That is where all losses are scaled, by scalers that are surely on: `if world_size > 1: scaler.unscale_(optimizer)`.
    """
    flowing, questions = script.flowing, script.flowing.questions
    backwards = questions.events(flow.Act.BACKWARD) if script.courses else []
    for event in questions.events(flow.Act.CLIP) if backwards else ():
        own = [each for each in backwards if each.optimizer & event.optimizer]
        about = [(machine, each) for machine, _, about, _ in event.reached for each in about if isinstance(each, Atom)]
        kinds = {_kind(questions, machine, each) for machine, each in about}
        node = flowing.interpreted.node_at(script.file, event.site)
        is_meant = SCALED in kinds and kinds <= {SCALED, UNSCALED} and not event.scaler and not _asks_scale(event.code)
        if node is not None and is_meant and not any(each.units == PURE for each in own):
            what = script.file.tree.quote(node)
            where = "" if kinds == {SCALED} else " on some way"
            yield Hazard(
                node,
                f"{what} sees gradients that are{where} still multiplied by the loss scale",
                "call the scaler's unscale_(optimizer) before it, on every way that leads there",
            )


def _kind(questions: Questions, machine: Machine, optimizer: Atom) -> str:
    """What is in the gradients of an optimizer on a way that no guess has led to."""
    grad = machine.grad(optimizer)
    return "" if grad is None or grad.spent or not questions.is_known(machine, None, optimizer) else grad.kind


def _asks_scale(code: Code) -> bool:
    """Whether a function asks for the scale, and may take it out of the gradients by itself."""
    return any(isinstance(each, ast.Attribute) and each.attr == "get_scale" for each in ast.walk(code.node))


def _is_scaled(seen: Seen) -> bool:
    """Whether gradients are scaled on some way to a read, and unscaled or unknown on none."""
    doubtful = (Gradients.UNSCALED, Gradients.UNKNOWN, Gradients.SPENT)
    states = seen.first or seen.again
    return any(state.gradients is Gradients.SCALED for state in states) and not any(
        state.gradients in doubtful for state in states
    )


def _is_without_scale(script: Script, course: Course, event: Event) -> bool:
    """Whether tests forbid a read wherever a loss is scaled that goes backward in the function, or in what it calls."""
    start = script.flowing.code_of(course.file, course.function)
    backwards = [each for each in script.flowing.questions.events(flow.Act.BACKWARD) if each.scaler]
    if start is None:
        return False
    tests = steady(script.flowing.tests(course.file, event.statement), start)
    ways = [way for each in backwards for way in script.flowing.chains.to(each, start)]
    return bool(ways) and all(exclude(tests, way) for way in ways)


def _divides_by_hand(course: Course) -> bool:
    """Whether the function asks for the scale, and may take it out of the gradients by itself."""
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "get_scale"
        for call in find(course.body, cst.Call)
    )


def _step_after(course: Course, event: Event) -> Event | None:
    """The scaler's step that a read is followed by."""
    order = course.file.tree.order
    steps = (step for step in course.of(flow.Act.SCALER_STEP) if order[step.statement] > order[event.statement])
    return next(steps, None)


def _repair(script: Script, course: Course, event: Event, step: Event, line: str) -> tuple[Edit, ...]:
    """Unscale before the read, where it is certain to be the one place: same block, one optimizer, one step."""
    tree = course.file.tree
    others = course.of(flow.Act.UNSCALE, flow.Act.STEP, flow.Act.HANDED_ON)
    if others or len(course.of(flow.Act.SCALER_STEP)) != 1:
        return ()
    siblings = tree.siblings(step.statement)
    around = next((each for each in siblings if event.statement in (each, *_below(course, each))), None)
    if around is None or not isinstance(step.statement, cst.Expr):
        return ()
    between = siblings[siblings.index(around) : siblings.index(step.statement)]
    if any(e.statement in (s, *_below(course, s)) for s in between for e in course.backwards):
        return ()
    return (script.editor(RULE.code).before(around, line),)


def _below(course: Course, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of events that stand in a compound statement."""
    tree = course.file.tree
    return [event.statement for event in course.events if statement in tree.ancestors(event.statement)]
