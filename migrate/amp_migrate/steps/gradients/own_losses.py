"""Which losses reach the gradients of which optimizer: where each reaches one's alone, each may have its own scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.flow.events import Act
from amp_migrate.flow.pytorch.gradients import overlap
from amp_migrate.steps.model.training_step import Backward, OptimizerStep
from amp_migrate.steps.read.interpreted import Interpreted


def own_losses(
    program: Interpreted, file: File, backwards: Sequence[Backward], steps: Sequence[OptimizerStep]
) -> dict[str, list[Backward]] | None:
    """The losses of each optimizer of a step, by its code; None unless each loss reaches one optimizer's parameters."""
    parameters: dict[str, frozenset[Atom]] = {}
    for step in steps:
        known = _parameters(program, file, step.optimizer) if step.part is None else None
        if known is None:
            return None
        parameters[file.tree.code(step.optimizer)] = known
    if any(overlap(one, other) is not False for one, other in combinations(parameters.values(), 2)):
        return None
    found: dict[str, list[Backward]] = {name: [] for name in parameters}
    for backward in backwards:
        leaves = _leaves(program, file, backward)
        reached = {name: leaves and overlap(own, leaves) for name, own in parameters.items()}
        names = [name for name, is_reached in reached.items() if is_reached is not False]
        if len(names) != 1 or not reached[names[0]]:
            return None
        found[names[0]].append(backward)
    return found if all(found.values()) else None


def _parameters(program: Interpreted, file: File, optimizer: cst.BaseExpression) -> frozenset[Atom] | None:
    """The parameters of what may be an optimizer; None where anything about it is unknown."""
    analysis, node = program.questions.analysis, program.counterparts(file).back(optimizer)
    meant = () if node is None else analysis.values.get(node, ())
    registry = analysis.pytorch.registry.optimizers
    known = [registry.get(each) if isinstance(each, Atom) else None for each in meant]
    seen = [each for each in known if each]
    return frozenset().union(*seen) if known and len(seen) == len(known) else None


def _leaves(program: Interpreted, file: File, backward: Backward) -> frozenset[Atom] | None:
    """What a call of `backward` gives gradients, on every way to it; None where nobody knows."""
    if backward.part is not None:
        return None
    events = program.questions.events(Act.BACKWARD)
    own = [each for each in events if program.node_at(file, each.site) is backward.call]
    is_known = own and all(each.leaves and each.code not in program.questions.analysis.given_up for each in own)
    return frozenset().union(*(each.leaves for each in own)) if is_known else None
