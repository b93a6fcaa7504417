"""Which scalers are made again, for an optimizer that goes on."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.domain.machine import AGAIN, EMPTY, LOST, SCALED, Machine
from amp_migrate.flow.events import Act, Event
from amp_migrate.hazards.seen.rounds import branches
from amp_migrate.hazards.seen.rounds import rounds as rounds_of
from amp_migrate.hazards.seen.script import Script
from amp_migrate.trees.nodes import find


def made_anew(script: Script) -> Iterator[tuple[Event, cst.CSTNode]]:
    """Every making of a scaler whose optimizer has stepped with the one before, and the expression that makes it."""
    if not script.courses:
        return
    questions = script.flowing.questions
    made = questions.events(Act.OPTIMIZER_MADE)
    for event in questions.events(Act.SCALER_MADE):
        node = script.flowing.interpreted.node_at(script.file, event.site)
        if node is None or _asks_for_itself(script, node):
            continue
        loop = script.file.tree.loop(node)
        rounds = _stepped_in_rounds(script, node, event, made)
        ways = [machine for machine, _ in event.states]
        # Where there were too many ways to tell them apart, none knows any more whether it has come round.
        again = [each for each in ways if each.get(AGAIN)]
        again = again or [each for each in ways if loop is None and _lost(each, rounds)]
        stepped = {optimizer for machine in again for optimizer in _stepped(machine, event, rounds)}
        is_anew = stepped and all(
            _stepped(each, event, rounds) or _is_first(each, stepped) or _waits(each, event, stepped) for each in again
        )
        around = loop or script.file.tree.function(node) or script.file.tree.module
        own = (each for each in made if each.optimizer & stepped and script.flowing.runs(script.file, around, each))
        if is_anew and not any(own):
            yield event, node


def _asks_for_itself(script: Script, node: cst.CSTNode) -> bool:
    """Whether tests on the way ask for what the scaler is kept in: `if self.scaler is None: self.scaler = ...`."""
    statement = script.file.tree.statement(node)
    kept_in = {script.file.tree.code(each.target) for each in find(statement, cst.AssignTarget)}
    asked = (text for text, _, _ in script.flowing.tests(script.file, statement))
    return any(path in text for path in kept_in for text in asked)


def _stepped(machine: Machine, event: Event, rounds: set[Atom]) -> list[Atom]:
    """The optimizers that have stepped with the scaler that was made here before.

    Where there were too many ways to tell them apart, the loop says by itself what it has stepped when it comes round.
    """
    known = [key[2] for key in machine.keys if key[0] == "stepped" and key[1] in event.scaler]
    return known or _lost(machine, rounds)


def _lost(machine: Machine, optimizers: set[Atom]) -> list[Atom]:
    """Of some optimizers, those with gradients that differed on ways that have become one."""
    return [each for each in optimizers if (grad := machine.grad(each)) is not None and grad.kind == LOST]


def _stepped_in_rounds(script: Script, node: cst.CSTNode, made: Event, optimizers: list[Event]) -> set[Atom]:
    """The optimizers that a loop steps with the scaler that is made in it, or in a function that it calls.

    Of a loop that calls the function, those that were made before it, and where it does in each round.
    """
    found: set[Atom] = set()
    own = script.file.tree.loop(node)
    for each in rounds_of(script.flowing, script.file, script.file.tree.statement(node)):
        if each.loop is None:
            continue
        stepped = _stepped_in(script, each.file, each.loop, made)
        if each.loop is own:
            found |= stepped
        elif not any(branches(*one) for one in each.way):
            seen = [one for one in optimizers if one.optimizer & stepped]
            if not any(script.flowing.runs(each.file, each.loop, one) for one in seen):
                found |= {atom for one in seen for atom in stepped & one.optimizer}
    return found


def _stepped_in(script: Script, file: File, loop: cst.CSTNode, made: Event) -> set[Atom]:
    """The optimizers that a loop steps with the scaler that is made in it."""
    steps = script.flowing.questions.events(Act.SCALER_STEP)
    own = [each for each in steps if each.scaler & made.scaler and script.flowing.runs(file, loop, each)]
    return {atom for each in own for atom in each.optimizer if isinstance(atom, Atom)}


def _is_first(machine: Machine, optimizers: set[Atom]) -> bool:
    """Whether a way comes round some other loop, and none of the optimizers has stepped on it."""
    known = (machine.grad(each) for each in optimizers)
    return all(grad is None or (grad.kind == EMPTY and not grad.spent) for grad in known)


def _waits(machine: Machine, event: Event, optimizers: set[Atom]) -> bool:
    """Whether gradients of one of the optimizers wait for a step that have the scale of the scaler before.

    So they do at the end of an epoch that is too short for the next step of every fourth batch.
    """
    known = (machine.grad(each) for each in optimizers)
    return any(grad is not None and grad.kind == SCALED and grad.scaler in event.scaler for grad in known)
