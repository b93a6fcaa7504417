"""An optimizer steps by itself on gradients that a scaler has scaled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.domain.atoms import NEVER, Atom, Obj, Value
from amp_migrate.flow.domain.machine import SCALED, TRUE, Grad, Machine
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.course import Course, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.optional_scalers import OptionalScalers
from amp_migrate.hazards.seen.rounds import branches
from amp_migrate.hazards.seen.script import Script
from amp_migrate.hazards.seen.states import Gradients, gradients_at
from amp_migrate.trees.nodes import find, last_word

RULE = Rule(
    code="AMP606",
    name="step-past-scaler",
    summary="an optimizer steps by itself on gradients that a scaler has scaled",
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
        -     optimizer.step()
        +     scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "`scaler.step` unscales the gradients if nobody has, and skips the step when one of them is infinite. "
        "`optimizer.step()` does neither; behind `scaler.step` it is a second step on the same gradients."
    ),
    sources=(f"{EXAMPLES}#typical-mixed-precision-training",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_WITH_SCALE = frozenset({Gradients.SCALED, Gradients.MIXED})
_BY_ITS_STEP = "hand on the scaler, and write its step(optimizer), and its update() after the last step"
_WITHOUT_SCALER = "no scaler takes the closure: compute in bfloat16 without a scaler"
_BY_HAND = frozenset({"isfinite", "isinf", "isnan"})


def detect(script: Script) -> Iterator[Hazard]:
    """Every plain step on scaled gradients, on unscaled ones that nobody has looked at, or behind the scaler's."""
    told: set[cst.CSTNode] = set()
    for hazard in chain(_beside_scaler(script), _elsewhere(script)):
        if hazard.node not in told:  # by a function beside a closure that its step runs, and by that step
            told.add(hazard.node)
            yield hazard


def _instead(step: cst.CSTNode, otherwise: str) -> str:
    """What to write in place of a plain step: no scaler takes the closure of one that goes backward by itself."""
    return _WITHOUT_SCALER if isinstance(step, cst.Call) and step.args else otherwise


def _elsewhere(script: Script) -> Iterator[Hazard]:
    """Every plain step on scaled gradients in a function that scales none: its callers do, or what it calls.

    They are so always, by a scaler that is surely on: where it may be off, so may be what steps. Beside what a scaler
    does, a test may be that which decides about it. Or they are so wherever the function makes a scaler.
    """
    flowing, events = script.flowing, script.flowing.questions.events
    scaling = {each.code for each in events(Act.BACKWARD) if each.scaler} if script.courses else set()
    working = {each.code for each in events(Act.UNSCALE, Act.SCALER_STEP, Act.UPDATE)} if scaling else set()
    for event in events(Act.STEP) if scaling else ():
        ways = [] if event.code in scaling or flowing.is_given_up(event) else gradients_at(event)
        scaled = [each for each in ways if _is_scaled(script, *each)]
        place = flowing.interpreted.place(event.site) if scaled else None
        if place is None or _looks_by_hand(script, *place, event.optimizer):
            continue
        file, node = place
        if len(scaled) == len(ways):
            is_told = event.code not in working or not branches(file, file.tree.statement(node))
            where = ""
        else:
            others = {grad.kind for _, _, grad in ways if grad.kind != SCALED}
            by = {grad.scaler for _, _, grad in scaled}
            known = OptionalScalers(script.roles.project, flowing)
            is_told = others <= {TRUE} and all(isinstance(e, Obj) and known.is_come_to(file, node, e) for e in by)
            where = ", where a scaler is made"
        if is_told:
            step = file.tree.quote(node)
            yield Hazard(
                node,
                f"{step} steps past the scaler on gradients that are multiplied by the loss scale{where}",
                _instead(node, _BY_ITS_STEP),
                file=file,
            )


def _is_scaled(script: Script, machine: Machine, optimizer: Atom, grad: Grad) -> bool:
    """Whether gradients on a way to a step are those of a scaler that is surely on."""
    is_known = script.flowing.questions.is_known(machine, None, optimizer)
    return grad.kind == SCALED and not grad.spent and is_known


def _beside_scaler(script: Script) -> Iterator[Hazard]:
    """Those in the functions that use a scaler."""
    for course in script.courses:
        elsewhere = {event.optimizer for event in course.of(Act.SCALER_STEP)}
        for event in course.of(Act.STEP):
            optimizers = NEVER.union(*(each.optimizer for each in event.known))
            if _looks_by_hand(script, course.file, event.node, optimizers):
                continue
            seen = course.where_scaled(event)
            kinds = {state.gradients for state in seen.first or seen.again}
            if kinds == {Gradients.SPENT} and _has_scaled(course, event, Act.SCALER_STEP):
                step = script.file.tree.quote(event.node)
                yield Hazard(
                    event.node,
                    f"{step} steps again on what {course.scaler} has stepped on, also where it has skipped that",
                    f"delete it: {course.scaler}.step() has called it where the gradients are finite",
                )
                continue
            if event.optimizer in elsewhere or not kinds or not kinds <= _WITH_SCALE | {Gradients.UNSCALED}:
                continue
            if not course.is_alone and not _has_scaled(course, event):
                continue
            step = script.file.tree.quote(event.node)
            is_scaled = not kinds.isdisjoint(_WITH_SCALE)
            what = "multiplied by the loss scale" if is_scaled else "never asked whether they are finite"
            by_scaler = f"{course.scaler}.step({event.optimizer}), and {course.scaler}.update() after the last step"
            yield Hazard(
                event.node,
                f"{step} steps past {course.scaler} on gradients that are {what}",
                _instead(event.node, f"write {by_scaler}"),
            )


def _has_scaled(course: Course, event: Event, *acts: Act) -> bool:
    """Whether it is the scaler of a course, of several in its function, that has scaled the gradients of a step.

    Args:
        acts: what it has done since, if that is to be known; else any of its doings names it.
    """
    working = course.of(*acts) if acts else (*course.backwards, *course.of(Act.UNSCALE, Act.SCALER_STEP, Act.UPDATE))
    scalers = {atom for each in working for atom in each.scalers}
    about = [(machine, atom) for one in event.known for machine, _, of, _ in one.reached for atom in of]
    known = [machine.grad(atom) for machine, atom in about]
    return bool(known) and all(each is not None and not each.guessed and each.scaler in scalers for each in known)


def _looks_by_hand(script: Script, file: File, step: cst.CSTNode, optimizers: Value) -> bool:
    """Whether a function asks by itself whether gradients are finite, or may take the scale out of them.

    It asks for the scale for another reason where nobody reads the gradients, and neither a test nor the step gets it:
    for those of `torch.autograd.grad`, that a penalty is made of.
    """
    body = file.tree.body(step)
    if any(node.value in _BY_HAND or "found_inf" in node.value for node in find(body, cst.Name)):
        return True
    scales = [call for call in find(body, cst.Call) if last_word(call.func) == "get_scale"]
    reads = script.flowing.questions.events(Act.READ, Act.REPLACED) if scales else ()
    deciding = (around for call in scales for around in file.tree.ancestors(call))
    return any(each.optimizer & optimizers for each in reads) or any(
        around is step or isinstance(around, (cst.Comparison, cst.If)) for around in deciding
    )
