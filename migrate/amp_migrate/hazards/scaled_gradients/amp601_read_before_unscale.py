"""Gradients are clipped or read while they are still multiplied by the loss scale."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.chains import exclude, steady
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import MIXED, SCALED, TRUE, UNSCALED
from amp_migrate.flow.domain.tensor import PURE
from amp_migrate.flow.pytorch.gradients import overlap
from amp_migrate.flow.questions import WATCHED_HINT
from amp_migrate.flow.source import Code
from amp_migrate.hazards.seen.accelerate import clipping_scaled
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.rounds import is_in_each
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Gradients, Seen, gradients_at
from amp_migrate.plan.edit import Edit
from amp_migrate.trees.nodes import find

RULE = Rule(
    code="AMP601",
    name="read-before-unscale",
    summary="gradients are clipped or read while they are still scaled",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
        +     scaler.unscale_(optimizer)
              torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "Until `unscale_`, gradients are multiplied by the loss scale, 65536 at first. A norm of 1.0 to clip to is "
        "then one of 1/65536, and training all but stops; a logged norm means nothing. What a hook gets is scaled, and "
        "what `wandb.watch(model)` logs by hooks. "
        "`unscale_` divides the gradients of what its optimizer has: those of other parameters stay scaled behind it. "
        "The line is added where the clipping stands in one block with the step of the only optimizer."
    ),
    sources=(f"{EXAMPLES}#gradient-clipping",),
    safety=Safety.UNSAFE,
    options=("--unsafe",),
)
FLOAT16_ONLY = True
_OF_NOBODY = "no optimizer has them, so nothing unscales them: divide them by the scaler's get_scale()"
_BEHIND_ALL = "unscale them with the scaler's unscale_(optimizer), and do behind it what the hook does"


def detect(script: Script) -> Iterator[Hazard]:
    """Every first read of scaled gradients before a step."""
    told: list[cst.CSTNode] = []
    for course in script.courses:
        if not course.is_alone or _divides_by_hand(course):
            continue
        stepped: set[Event] = set()
        for event, seen in course.reached(flow.Act.CLIP):
            step = _step_after(course, event)
            if step is None or step in stepped or not _is_scaled(seen) or _is_without_scale(script, course, event):
                continue
            if any(_may_be_unscaled(script, each) for each in event.known):
                continue
            stepped.add(step)
            told.append(event.node)
            what = script.file.tree.quote(event.node)
            line = f"{course.scaler}.unscale_({step.optimizer})"
            yield Hazard(
                event.node,
                f"{what} sees gradients that are still multiplied by the loss scale",
                f"write {line} before it, and nowhere else until {course.scaler}.update()",
                _repair(script, course, event, step, line),
            )
    yield from _elsewhere(script, told)
    yield from _in_hooks(script)
    yield from _watched(script)
    yield from _left_by_unscale(script)
    for node in clipping_scaled(script.flowing, script.file):
        yield Hazard(
            node,
            f"{script.file.tree.quote(node)} sees gradients that Accelerate has multiplied by the loss scale",
            "let the accelerator clip them, or call its unscale_gradients() before it",
        )


def _elsewhere(script: Script, told: list[cst.CSTNode]) -> Iterator[Hazard]:
    """The first read of scaled gradients in each function, whoever steps, of which the others have not told.

    It may be in a file that has no AMP: what scales is inherited, or imported.
    """
    flowing, questions = script.flowing, script.flowing.questions
    bodies = {script.file.tree.body(each) for each in told}
    called = questions.analysis.callees
    hooks = {code for each in questions.events(flow.Act.HOOK) for code in called.get(each.node, ())}
    for event in questions.events(flow.Act.CLIP, flow.Act.READ) if script.courses else ():
        place = flowing.place(script.file, event)
        if place is None or place[0].tree.body(place[1]) in bodies or event.scaler or _asks_scale(event.code):
            continue
        if event.act is flow.Act.READ and not flowing.is_gauged(event):
            continue
        is_told = any(isinstance(each, cst.Call) and flowing.comes_to(script.file, each, event) for each in told)
        file, node = place
        where = None if is_told or _may_be_unscaled(script, event) else _scaled_where(script, event, file, node)
        if where is not None:
            found = f"are{where} still multiplied by the loss scale"
            hint = "call the scaler's unscale_(optimizer) before it, on every way that leads there"
            hint = _BEHIND_ALL if event.code in hooks else hint if event.optimizer else _OF_NOBODY
        elif not is_told and _are_added_to(script, event) and not _is_in_vain(script, event):
            found = "a scaled loss has added to since their step"
            hint = "read them before that loss goes backward"
        else:
            continue
        bodies.add(file.tree.body(node))
        yield Hazard(node, f"{file.tree.quote(node)} sees gradients that {found}", hint, file=file)


def _scaled_where(script: Script, event: flow.Event, file: File, node: cst.CSTNode) -> str | None:
    """On which ways gradients are scaled, in the words of the message; None where they may be meant to be.

    Where they are true on others, as no loss is scaled there, it has to be in every round that they are read: a test
    on the way may be that which decides about the scale. So may it where the scaler may be off.
    """
    ways, questions = gradients_at(event), script.flowing.questions
    if not event.optimizer:
        is_sure = any(
            event.site in each.sources and all(each.sure_in.values()) for each in questions.events(flow.Act.GAUGE)
        )
        return "" if is_sure else None
    kinds = {"" if grad.spent or grad.guessed else grad.kind for _, _, grad in ways}
    is_known = all(questions.is_known(machine, None, each) for machine, each, _ in ways)
    if kinds == {SCALED, UNSCALED}:
        backwards = (each for each in questions.events(flow.Act.BACKWARD) if each.optimizer & event.optimizer)
        return " on some way" if is_known and not any(each.units == PURE for each in backwards) else None
    is_meant = kinds == {SCALED, TRUE} or (kinds == {SCALED} and not is_known)
    is_certain = not is_meant or is_in_each(script.flowing, file, file.tree.statement(node))
    return "" if SCALED in kinds and kinds <= {SCALED, TRUE} and is_certain else None


def _are_added_to(script: Script, event: flow.Event) -> bool:
    """Whether some optimizer's gradients are always read when a scaled loss has added to what its step has left.

    That is another's loss: a generator's, which goes backward through the discriminator.
    """
    questions = script.flowing.questions
    states: defaultdict[Atom, list[bool]] = defaultdict(list)
    for machine, optimizer, grad in gradients_at(event):
        states[optimizer].append(grad.kind == MIXED and questions.is_known(machine, None, optimizer))
    unscaled = (each.optimizer for each in questions.events(flow.Act.BACKWARD) if each.units == PURE)
    others = frozenset[object]().union(*unscaled)
    return any(
        all(are_mixed) and each not in others and questions.always_get_gradients(each)
        for each, are_mixed in states.items()
    )


def _is_in_vain(script: Script, event: flow.Event) -> bool:
    """Whether such gradients are clipped that are cleared before anybody reads them."""
    return event.act is flow.Act.CLIP and script.flowing.questions.is_clipped_in_vain(event)


def _may_be_unscaled(script: Script, event: flow.Event) -> bool:
    """Whether gradients are those of several optimizers that nobody can tell apart, and some of them are unscaled."""
    questions = script.flowing.questions
    several = {each for each in event.optimizer if isinstance(each, Atom) and not questions.is_single(each)}
    return any(not several.isdisjoint(each.optimizer) for each in questions.events(flow.Act.UNSCALE) if several)


def _left_by_unscale(script: Script) -> Iterator[Hazard]:
    """Clipping behind `unscale_` of which some gradients are of no optimizer, and still scaled."""
    flowing, questions = script.flowing, script.flowing.questions
    for event in questions.events(flow.Act.CLIP) if script.courses else ():
        place = flowing.place(script.file, event) if questions.is_left_scaled(event) else None
        if place is not None:
            file, node = place
            found = f"{file.tree.quote(node)} sees gradients of parameters that no optimizer has"
            hint = "clip the parameters that the optimizer has"
            yield Hazard(node, f"{found}: unscale_() leaves them multiplied by the loss scale", hint, file=file)


def _in_hooks(script: Script) -> Iterator[Hazard]:
    """Every hook that makes something of gradients, which get to it while they are scaled: all losses are."""
    flowing, questions = script.flowing, script.flowing.questions
    backwards = questions.events(flow.Act.BACKWARD) if script.courses else []
    for event in questions.events(flow.Act.HOOK) if backwards else ():
        node = flowing.interpreted.node_at(script.file, event.site) if flowing.is_gauged(event) else None
        answers = [(each, overlap(each.leaves, event.leaves) if event.leaves else None) for each in backwards]
        own = [each for each, is_own in answers if is_own] or [each for each, is_own in answers if is_own is None]
        if node is not None and own and all(each.scaler and None not in each.units for each in own):
            yield Hazard(
                node,
                f"{script.file.tree.quote(node)} gets gradients that are still multiplied by the loss scale",
                _BEHIND_ALL,
            )


def _watched(script: Script) -> Iterator[Hazard]:
    """Every call that has a library log gradients by hooks, where no optimizer's losses are all without a scale."""
    flowing, questions = script.flowing, script.flowing.questions
    scaled: set[object] = set()
    unscaled: set[object] = set()
    for event in questions.events(flow.Act.BACKWARD) if script.courses else ():
        (scaled if event.scaler and None not in event.units else unscaled).update(event.optimizer)
    for fault in questions.watched if scaled and unscaled <= scaled else ():
        place = flowing.place(script.file, fault)
        if place is not None:
            file, node = place
            yield Hazard(node, fault.what, WATCHED_HINT, file=file)


def _asks_scale(code: Code) -> bool:
    """Whether a function asks for the scale, and may take it out of the gradients by itself."""
    return any(isinstance(each, ast.Attribute) and each.attr == "get_scale" for each in ast.walk(code.node))


def _is_scaled(seen: Seen) -> bool:
    """Whether gradients are scaled on some way to a read, and unscaled or unknown on none."""
    doubtful = (Gradients.UNSCALED, Gradients.MIXED, Gradients.UNKNOWN, Gradients.SPENT)
    states = seen.first or seen.again
    return any(state.gradients is Gradients.SCALED for state in states) and not any(
        state.gradients in doubtful for state in states
    )


def _is_without_scale(script: Script, course: Course, event: Event) -> bool:
    """Whether tests forbid a read wherever a loss is scaled that goes backward in the function, or in what it calls.

    Or whether they say that the scalers are off.
    """
    start, questions = script.flowing.code_of(course.file, course.function), script.flowing.questions
    backwards = [each for each in questions.events(flow.Act.BACKWARD) if each.scaler]
    if start is None:
        return False
    tests = steady(script.flowing.tests(course.file, event.statement), start)
    if backwards and all(questions.is_off(scaler, start, tests) for each in backwards for scaler in each.scaler):
        return True
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
