"""Which scaler each part of a split step uses, and what it takes to get it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.gradient_uses import needs_true_gradients
from amp_migrate.steps.gradients.steppers import loop_over_optimizers, optimizer_steps
from amp_migrate.steps.model.route import Route, ScaledStep
from amp_migrate.steps.model.training_step import TrainingStep
from amp_migrate.steps.read.gather import Gathered, Gatherer
from amp_migrate.steps.read.split import Key, Split, key_of
from amp_migrate.steps.scaler.as_last_argument import hand_on
from amp_migrate.steps.statements.looped import is_alone
from amp_migrate.trees.nodes import block_of, nested_statements, statements

# The way of the scaler to the place where some optimizers are used together.
Reach: TypeAlias = "Callable[[File, list[cst.BaseExpression]], Route | Refusal]"
_Sites: TypeAlias = "tuple[tuple[TrainingStep, CallSite], ...]"


def scale_parts(split: Split, roles: Roles, reach: Reach) -> list[ScaledStep] | Refusal:
    """The parts of a split step with their scalers, each caller before what it calls."""
    routes: dict[Key, Route] = {}
    found: list[ScaledStep] = []
    calls: dict[Key, tuple[FunctionRef | None, _Sites]] = {
        (function.file, function.node): (function, sites) for function, sites in split.calls.items()
    }
    for part in split.parts:
        place = key_of(part.step)
        function, sites = calls.pop(place, (None, ()))
        route = _route(part, function, sites, routes, roles, reach)
        if isinstance(route, Refusal):
            return route
        if route is not None:
            routes[place] = route
        found.append(ScaledStep(part.step, route))
    for function, sites in calls.values():
        assert function is not None
        is_penalty = any(call.part.node is function.node for caller, _ in sites for call in caller.penalty_calls)
        step = (
            Gatherer(function.file, roles, scales=True).penalty(function) if is_penalty else _stepper(function, roles)
        )
        route = step if isinstance(step, Refusal) else hand_on(function, [(s, routes[key_of(c)]) for c, s in sites])
        if isinstance(step, Refusal) or isinstance(route, Refusal):
            return step if isinstance(step, Refusal) else cast(Refusal, route)
        found.append(ScaledStep(step, route))
    return found


def _route(
    part: Gathered,
    function: FunctionRef | None,
    sites: _Sites,
    routes: dict[Key, Route],
    roles: Roles,
    reach: Reach,
) -> Route | Refusal | None:
    """The way of the scaler to one part: that of its optimizers, or through its callers."""
    step = part.step
    if part.unscalable is not None:
        return part.unscalable
    if step.optimizer_steps:
        return reach(step.file, [each.optimizer for each in step.optimizer_steps])
    if part.without_step is None or function is None:
        return None
    if any(key_of(caller) not in routes for caller, _ in sites):
        return part.without_step
    start = step.file.tree.order[step.place]
    for statement in nested_statements(block_of(function.node)):
        if statement in part.left_out:
            continue
        if step.file.tree.order[statement] > start and needs_true_gradients(step.file, roles, statement):
            return _read_apart(step.file, statement)
    return hand_on(function, [(site, routes[key_of(caller)]) for caller, site in sites])


def _stepper(function: FunctionRef, roles: Roles) -> TrainingStep | Refusal:
    """The part of a function that does nothing but step: always, and on gradients that nobody reads before."""
    file, body = function.file, block_of(function.node)
    for statement in nested_statements(body):
        if needs_true_gradients(file, roles, statement):
            return _read_apart(file, statement)
    steps = tuple(optimizer_steps(roles, file, body))
    for each in steps:
        loop = loop_over_optimizers(file, each)
        runs = loop if isinstance(loop, cst.For) else each.statement
        if each.call.args or runs not in statements(body) or not is_alone(each.statement, each.call):
            return Refusal(
                file,
                each.statement,
                f"{function.name}() does not always step, and scaler.update() would have nothing to go by",
                "step by scaler.step() in it, and call scaler.update() behind that, by hand",
            )
    return TrainingStep(
        file=file,
        function=function.node,
        regions=(),
        islands=(),
        extractions=(),
        backwards=(),
        gradient_uses=(),
        optimizer_steps=steps,
        updates=(),
    )


def _read_apart(file: File, statement: cst.CSTNode) -> Refusal:
    return Refusal(
        file,
        statement,
        "gradients are read in a function that does not also go backward and step",
        "call scaler.unscale_(optimizer) before it by hand, or run with --dtype bf16, which needs no scaler",
    )
