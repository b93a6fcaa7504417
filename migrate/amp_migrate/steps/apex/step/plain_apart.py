"""Plain steps in a function that scales another loss, which no scaler can serve: they stay as they are.

So does a critic whose cost has a gradient penalty in the midst of an expression (`score + 10 * penalty(x)`), and whose
optimizer Apex does not know. Elsewhere, what goes backward beside a scaled loss is scaled with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import GRAD, Roles
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.penalties import read_penalties
from amp_migrate.steps.gradients.steppers import optimizer_steps
from amp_migrate.steps.model.training_step import Backward
from amp_migrate.steps.read.gather import Gatherer
from amp_migrate.trees.nodes import Block, Statement, inner_statements
from amp_migrate.trees.own_calls import calls_of

# Whether Apex prepares nothing of what may be an optimizer at some place.
IsUnprepared: TypeAlias = "Callable[[File, cst.BaseExpression], bool]"


@frozen
class PlainApart:
    """A plain step that stays.

    Attributes:
        statement: its `backward()`.
        run: that, its `step()`, and what stands between them.
        loss: what its loss comes from.
    """

    statement: Statement
    run: frozenset[Statement]
    loss: frozenset[Statement]


def plain_apart(
    file: File,
    roles: Roles,
    body: Block,
    plain: Sequence[Backward],
    scaled: Iterable[Statement],
    is_unprepared: IsUnprepared,
) -> Iterator[PlainApart]:
    """The plain steps of a body that stay.

    Args:
        plain: the calls of `backward` that Apex does not scale.
        scaled: the statements that go backward from what it does.
    """
    order = file.tree.order
    ends = [*scaled, *(each.statement for each in plain)]
    steps = [*optimizer_steps(roles, file, body)] if plain else []
    for backward in plain:
        begin = order[backward.statement]
        end = min((order[each] for each in ends if order[each] > begin), default=len(order))
        own = [each for each in steps if begin < order[each.statement] < end]
        paths = {dotted(each.optimizer) for each in own}
        siblings = file.tree.siblings(backward.statement)
        is_alone = all(each in own for each in steps if dotted(each.optimizer) in paths)
        is_run = bool(own) and all(each.statement in siblings for each in own)
        if not (is_run and is_alone and all(is_unprepared(file, each.optimizer) for each in own)):
            continue
        loss, _ = Gatherer(file, roles, is_mixed=True, scales=True).slices.before(body, backward)
        if _takes_unscaled(file, roles, body, (*loss, backward.statement)):
            run = siblings[siblings.index(backward.statement) : siblings.index(own[-1].statement) + 1]
            inner = (each for one in run for each in inner_statements(one))
            yield PlainApart(backward.statement, frozenset((*run, *inner)), frozenset(loss))


def _takes_unscaled(file: File, roles: Roles, body: Block, statements: Iterable[Statement]) -> bool:
    """Whether some statements of a body take gradients of another loss where that cannot be scaled."""
    read = read_penalties(file, roles, body)
    scalable = frozenset() if isinstance(read, Refusal) else read.scaled
    others = (each for each in statements if each not in scalable)
    return any(_takes_gradients(file, roles, call) for each in others for call in calls_of(each))


def _takes_gradients(file: File, roles: Roles, call: cst.Call) -> bool:
    function = roles.project.called(file, call)
    return file.names.callee(call) == GRAD or (function is not None and roles.takes_gradients(function))
