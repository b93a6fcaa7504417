"""Gradient penalties under a loss scaler, as PyTorch's own recipe has them.

The gradients that a penalty is built on are taken of a scaled loss, so that they do not vanish in float16, and divided
by the scale before anything is built on them. They are taken outside every autocast region, like `backward()`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import GRAD, Roles
from amp_migrate.catalog.step_rules import SCALE_IT
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.settings import Settings
from amp_migrate.steps.gradients.longer_penalties import computed_before
from amp_migrate.steps.model.route import Route
from amp_migrate.steps.model.training_step import Extraction, Penalty, PenaltyCall, TrainingStep
from amp_migrate.trees.nodes import Block, Statement, block_of, find, is_constant
from amp_migrate.trees.own_calls import calls_in, named_arguments

_TRAINS = frozenset(("backward", "step", "scale"))
_LOW_SCALE = ("init_scale=1024.0",)
LOW_SCALE_NOTE = (
    "the loss scale begins at 1024: gradients of a sum are taken for a penalty, which 65536 times as large would be "
    "infinite in float16"
)
_OUT_OF_SIGHT = "a method that this may call takes gradients of an unscaled loss beside those of the scaled one"
_NAMES = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused")


@frozen
class Penalties:
    """What a function has of gradient penalties.

    Attributes:
        taken: the gradients that it takes itself.
        calls: its calls of functions that take them.
        extractions: what such calls have in front of them in their statements, and what goes into a region for that.
        unscaled: the statements that call functions which take gradients otherwise, of a loss that nothing scales.
    """

    taken: tuple[Penalty, ...] = ()
    calls: tuple[PenaltyCall, ...] = ()
    extractions: tuple[Extraction, ...] = ()
    unscaled: frozenset[Statement] = frozenset()

    @property
    def scaled(self) -> frozenset[Statement]:
        """The statements that take gradients of a scaled loss, or call what does."""
        return frozenset([*(each.statement for each in self.taken), *(each.statement for each in self.calls)])

    @property
    def outside(self) -> frozenset[Statement]:
        """The statements that must stay outside every region, where what is not scaled would vanish."""
        return self.scaled | self.unscaled


def read_penalties(file: File, roles: Roles, body: Block, parts: Collection[cst.Call] = ()) -> Penalties | Refusal:
    """The gradient penalties of a body that can be scaled; where gradients are taken otherwise shows in the result.

    Args:
        parts: calls of functions that go backward themselves, and see to their own penalties.
    """
    taken: list[Penalty] = []
    calls: list[PenaltyCall] = []
    extractions: list[Extraction] = []
    unscaled: set[Statement] = set()
    for statement, call in calls_in(body):
        if call in parts:
            continue
        if file.names.callee(call) == GRAD:
            penalty = _penalty(file, statement, call)
            if penalty is not None:
                taken.append(penalty)
            continue
        function = roles.taking_gradients(file, call)
        if function is None:
            continue
        before = computed_before(file, roles, statement, call)
        if before is not None and _is_penalty(roles, function):
            calls.append(PenaltyCall(statement, call, function))
            extractions.extend(before)
        elif roles.project.called(file, call) is None and any(True for _ in _own(function)):
            # Only its name says what it is, so that nobody follows it in the result.
            return Refusal(file, call, _OUT_OF_SIGHT, SCALE_IT)
        elif isinstance(statement, cst.Assign) and statement.value is call:
            unscaled.add(statement)
    return Penalties(tuple(taken), tuple(calls), tuple(extractions), frozenset(unscaled))


def _own(function: FunctionRef) -> Iterator[tuple[Statement, cst.Call]]:
    """The gradients that a function takes itself."""
    of_body = calls_in(block_of(function.node))
    return ((statement, call) for statement, call in of_body if function.file.names.callee(call) == GRAD)


def _is_penalty(roles: Roles, function: FunctionRef, seen: tuple[cst.CSTNode, ...] = ()) -> bool:
    """Whether a function takes gradients, itself or by others, in a way that can be scaled, and trains nothing."""
    file, body = function.file, block_of(function.node)
    trains = any(
        isinstance(each.func, cst.Attribute) and each.func.attr.value in _TRAINS for each in find(body, cst.Call)
    )
    if trains or function.node in seen or any(_penalty(file, *each) is None for each in _own(function)):
        return False
    called = ((*each, roles.taking_gradients(file, each[1])) for each in calls_in(body))
    return all(
        computed_before(file, roles, statement, call) is not None and _is_penalty(roles, inner, (*seen, function.node))
        for statement, call, inner in called
        if inner is not None
    )


def _penalty(file: File, statement: Statement, call: cst.Call) -> Penalty | None:
    """The gradients that a statement takes and gives a name; None for any other use of them."""
    arguments = named_arguments(call, _NAMES) or {}
    if "outputs" not in arguments or not is_constant(arguments.get("create_graph"), "True"):
        return None
    if "allow_unused" in arguments or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0].target, statement.value
    one = isinstance(value, cst.Subscript) and value.value is call
    if value is not call and not one:
        return None
    if isinstance(target, cst.Tuple) and not one:
        names = tuple(dotted(each.value) for each in target.elements if isinstance(each, cst.Element))
        is_single = True
    else:
        names, is_single = (dotted(target),), one
    if not names or None in names:
        return None
    outputs = arguments["outputs"]
    is_summed = "grad_outputs" in arguments or _is_sum(file, outputs, frozenset())
    return Penalty(statement, outputs, cast("tuple[str, ...]", names), is_single, is_summed)


def _is_sum(file: File, value: cst.BaseExpression, seen: frozenset[cst.CSTNode]) -> bool:
    """Whether something may be a sum, or computed with one: `torch.sum(y)`, `y.sum() / n`, or a name for it."""
    if isinstance(value, cst.BinaryOperation):
        return _is_sum(file, value.left, seen) or _is_sum(file, value.right, seen)
    if isinstance(value, cst.Call):
        name = value.func.attr if isinstance(value.func, cst.Attribute) else value.func
        return isinstance(name, cst.Name) and name.value == "sum"
    given = (each.value for each in object_bindings(file, value) if each.value is not None and each.value not in seen)
    return any(_is_sum(file, each, seen | {each}) for each in given)


def has_large_penalty(step: TrainingStep, settings: Settings) -> bool:
    """Whether gradients begin with the whole loss scale at some output, and come through half precision."""
    line = step.file.tree.position
    return any(
        each.is_summed and (step.file.name, line(each.statement)[0]) not in settings.unhalved for each in step.penalties
    )


def with_low_scale(route: Route) -> Route:
    """A way to a scaler that does not begin with its usual 65536.

    A gradient of the sum of all outputs begins with the scale itself, where that of a mean begins with a small part of
    it, and float16 ends at 65504: the first penalties would be infinite.
    """
    return replace(route, creations=tuple(replace(each, arguments=_LOW_SCALE) for each in route.creations))
