"""A scaler steps on gradients of a loss that it has not scaled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow import events as flow
from amp_migrate.flow.chains import exclude, steady, tests_of
from amp_migrate.flow.domain.atoms import reads_of
from amp_migrate.flow.domain.machine import AGAIN, MIXED, SCALED, TRUE, Facts
from amp_migrate.flow.domain.tensor import IN_A_TERM, PURE
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.report.finding import seen_from

RULE = Rule(
    code="AMP607",
    name="unscaled-backward",
    summary="a scaler steps on gradients of a loss that was not scaled, or not once and as a whole",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  loss = (model(x) - y).square().mean()
        -     loss.backward()
        +     scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "`scaler.step` divides the gradients by the scale, 65536 at first. Gradients that were never multiplied by it "
        "become so small that the model hardly moves, or that a term beside the scaled loss counts for nothing; those "
        "of a loss that was scaled twice are 65536 times too large. Those of an earlier step that nothing clears are "
        "divided again, and once one of them is infinite, it stays so, and every further step is skipped."
    ),
    sources=(f"{EXAMPLES}#typical-mixed-precision-training",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_PLAIN = "is not scaled"
_PARTLY = "is scaled in part"


def detect(script: Script) -> Iterator[Hazard]:
    """Every backward whose gradients go through the scaler's step and are not those of a scaled loss alone."""
    told: set[cst.CSTNode] = set()
    for hazard in chain(
        _added(script), _crossed(script), _unscaled_alone(script), _beside(script), _not_cleared(script)
    ):
        if hazard.node not in told:
            told.add(hazard.node)
            yield hazard


def _crossed(script: Script) -> Iterator[Hazard]:
    """Every place at which a scaler always divides what another has scaled."""
    for course in script.courses:
        for event, seen in course.reached(flow.Act.UNSCALE, flow.Act.SCALER_STEP):
            if seen.always(lambda state: state.is_others):
                yield Hazard(
                    event.node,
                    f"{script.file.tree.quote(event.node)} divides gradients that another scaler has scaled",
                    "let the scaler that scaled the loss unscale, step and update",
                )
                break


def _unscaled_alone(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss, whichever file it is in, where all gradients that a scaler divides are such."""
    flowing, events = script.flowing, script.flowing.questions.events
    backwards = events(flow.Act.BACKWARD)
    for divides in _divisions(script):
        if flowing.interpreted.node_at(script.file, divides.site) is None:
            continue
        for optimizer in (each for each in divides.optimizer if _always(divides, each, TRUE)):
            own = [each for each in backwards if optimizer in each.optimizer]
            places = [flowing.interpreted.place(each.site) for each in own]
            if own and all(each.units == PURE for each in own):
                yield from (_unscaled(script, *each, divides) for each in places if each is not None)


def _added(script: Script) -> Iterator[Hazard]:
    """Every backward of a loss that is not scaled, or not as others, of gradients that are always divided together.

    It may be in another file than the scaler.
    """
    file, flowing = script.file, script.flowing
    if not script.courses:
        return
    backwards = [(each, _how_scaled(each)) for each in flowing.questions.events(flow.Act.BACKWARD)]
    scaled = [event for event, _ in backwards if event.units != PURE]
    for event in flowing.questions.events(flow.Act.UNSCALE, flow.Act.SCALER_STEP):
        divides = flowing.interpreted.node_at(file, event.site)
        if not isinstance(divides, cst.Call) or not isinstance(divides.func, cst.Attribute):
            continue
        for backward, how in backwards:
            both = backward.optimizer & event.optimizer if how else ()
            is_by_itself = None not in backward.units
            is_mixed = any(
                _always(event, each, MIXED) and (is_by_itself or _adds(backward, scaled, each)) for each in both
            )
            place = flowing.interpreted.place(backward.site) if is_mixed else None
            if place is not None:
                yield _unscaled(script, *place, event, how)


def _how_scaled(backward: flow.Event) -> str:
    """What is wrong with how a loss that goes backward is scaled, in words; nothing where it is once, as a whole.

    A loss that is made of scaled gradients, too, is another rule's (AMP610).
    """
    powers = {None if unit is None else unit[1] for unit in backward.units}
    if powers == {None}:
        return _PLAIN
    if None in powers:
        return _PARTLY
    how = _PARTLY if powers == {IN_A_TERM} else "is scaled twice" if powers == {2} else ""
    return "" if reads_of(backward.subject) else how


def _adds(plain: flow.Event, scaled: list[flow.Event], optimizer: object) -> bool:
    """Whether the gradients of a plain loss meet scaled ones, or scaled ones meet them."""
    return _finds(plain, optimizer, SCALED) or any(_finds(each, optimizer, TRUE) for each in scaled)


def _finds(backward: flow.Event, optimizer: object, kind: str) -> bool:
    known = [machine.grad(optimizer) for machine, _ in backward.states]
    return any(each is not None and each.kind == kind and not each.spent and not each.guessed for each in known)


def _always(event: flow.Event, optimizer: object, kind: str) -> bool:
    """Whether an optimizer's gradients are of a kind on every way to a place, at first or again, by no guess."""
    for again in (None, True):
        ways = (machine for machine, _, about, _ in event.reached if optimizer in about)
        known = [machine.grad(optimizer) for machine in ways if machine.get(AGAIN) == again]
        if known and all(each is not None and each.kind == kind and not (each.spent or each.guessed) for each in known):
            return True
    return False


def _beside(script: Script) -> Iterator[Hazard]:
    """Every backward of a plain loss that runs where others are scaled, and that the scaler divides like those."""
    events = script.flowing.questions.events
    backwards = events(flow.Act.BACKWARD)
    for divides in _divisions(script):
        tests = steady(tests_of(divides), divides.code, divides.node)
        for optimizer in _kept(divides, TRUE):
            own = [each for each in backwards if optimizer in each.optimizer]
            ways = {each: [*script.flowing.chains.to(each, divides.code)] for each in own}
            # The tests under which the scaler divides are those under which it scales: no other switch decides of it.
            is_switch = any(tests <= way for each in own if each.scaler & divides.scaler for way in ways[each])
            for plain in (each for each in own if each.units == PURE and is_switch):
                node = script.flowing.interpreted.node_at(script.file, plain.site)
                if node is not None and not all(_decides(tests, way) for way in ways[plain]):
                    yield _unscaled(script, script.file, node, divides)


def _decides(switch: Facts, way: Facts) -> bool:
    """Whether the tests of a switch are not what a way has come by, or whether it is there that they are asked."""
    asked = {text for text, _, _ in switch}
    return exclude(switch, way) or any(each in text for text, _, _ in way - switch for each in asked)


def _not_cleared(script: Script) -> Iterator[Hazard]:
    """Every step by a scaler whose gradients are there when the next scaled ones are added, as nothing clears them.

    What clears only where tests forbid the step clears none of its gradients. Where nothing clears any, nobody knows
    who does, unless the optimizer is made in sight, and gradients are handed on to nobody.
    """
    questions = script.flowing.questions
    clearing = questions.events(flow.Act.ZERO)
    made = {atom for each in questions.events(flow.Act.OPTIMIZER_MADE) for atom in each.optimizer}
    for step in questions.events(flow.Act.SCALER_STEP):
        node = script.flowing.interpreted.node_at(script.file, step.site)
        if node is None or not questions.adds_up(step, ()):
            continue
        tests = steady(tests_of(step), step.code, step.node)
        own = [each for each in clearing if each.optimizer & step.optimizer]
        is_spared = bool(own) and all(each.code is step.code and exclude(tests, tests_of(each)) for each in own)
        is_alone = step in questions.uncleared and step.optimizer <= made
        # To whom gradients are handed on is asked last: it is looked for in whole projects.
        if is_spared or (is_alone and not questions.handing_on_gradients):
            chains = (each for of in questions.handing_on_gradients for each in script.flowing.chains.to(of, step.code))
            if next(chains, None) is not None:
                continue
            what = script.file.tree.quote(node)
            message = f"nothing clears the gradients of {what}, and those of the next scaled loss are added to them"
            yield Hazard(node, message, "call zero_grad() behind it")


def _divisions(script: Script) -> Iterator[flow.Event]:
    """Where a scaler that is surely switched on divides gradients."""
    questions = script.flowing.questions
    for event in questions.events(flow.Act.UNSCALE, flow.Act.SCALER_STEP) if script.courses else ():
        if event.scaler and all(map(questions.is_on, event.scaler)):
            yield event


def _kept(event: flow.Event, kind: str) -> set[object]:
    """The optimizers of a place whose gradients may be of a kind there, and have not been stepped on.

    Of several that nobody can tell apart, it is whichever is meant where that holds of all of them.
    """
    found: set[object] = set()
    for machine, _, about, _ in event.reached:
        known = {each: grad for each in about if (grad := machine.grad(each)) is not None}
        those = {each for each, grad in known.items() if grad.kind == kind and not grad.spent}
        guessed = {each for each in those if known[each].guessed}
        found |= those if len(those) == len(about) else {each for each in those if each not in guessed}
    return found


def _unscaled(script: Script, file: File, node: cst.CSTNode, divides: flow.Event, how: str = "") -> Hazard:
    call = script.flowing.interpreted.node_at(script.file, divides.site)
    assert isinstance(call, cst.Call)
    scaler = script.file.tree.code(cst.ensure_type(call.func, cst.Attribute).value)
    home = "" if file is script.file else f" (in {seen_from(script.file.name, file.name)})"
    step = f"{script.file.tree.quote(call)}{home}"
    if how in ("", _PLAIN):
        beside = " it with what is" if how else ""
        message = f"{_PLAIN}, but {step} unscales{beside}"
        hint = f"write {scaler}.scale(loss).backward() with this loss"
    else:
        message = f"{how}, but {step} unscales all of it once"
        hint = f"write {scaler}.scale(loss).backward() with the whole loss, and scale no part of it before"
    return Hazard(node, f"{file.tree.quote(node)} {message}", hint, file=file)
