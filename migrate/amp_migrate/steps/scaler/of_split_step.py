"""Which scaler each part of a split step uses, and what it takes to get it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, cast

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.looped import is_alone
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.before_callers_step import read_apart, read_before_return
from amp_migrate.steps.gradients.gradient_uses import gradient_uses
from amp_migrate.steps.gradients.steppers import loop_over_optimizers, optimizer_steps
from amp_migrate.steps.gradients.updates import place_updates
from amp_migrate.steps.model.route import Route, ScaledStep
from amp_migrate.steps.model.training_step import GradientUse, OptimizerStep, ScaledUse, TrainingStep
from amp_migrate.steps.read.gather import Gathered, Gatherer
from amp_migrate.steps.read.split import Key, Split, key_of
from amp_migrate.steps.scaler.as_last_argument import hand_on
from amp_migrate.steps.scaler.callers import unfilled
from amp_migrate.trees.nodes import Block, Statement, block_of, nested_statements, statements

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
        function, _ = calls.pop(place, (None, ()))
        route = _route(part, function, split, routes, roles, reach)
        if isinstance(route, Refusal):
            return route
        read = part.step
        if route is not None:
            routes[place] = route
            if function is not None and not read.optimizer_steps:
                uses = read_before_return(roles, read, function, split.calls[function], part.left_out)
                if isinstance(uses, Refusal):
                    return uses
                read = replace(read, gradient_uses=uses)
        found.append(ScaledStep(read, route))
    for function, sites in calls.values():
        assert function is not None
        step = (
            Gatherer(function.file, roles, scales=True).penalty(function)
            if function in split.penalties
            else _stepper(function, sites, roles)
        )
        handed = {function: [(site, routes[key_of(caller)]) for caller, site in sites]}
        route = step if isinstance(step, Refusal) else hand_on(function, handed, unfilled(roles.project, function))
        if isinstance(step, Refusal) or isinstance(route, Refusal):
            return step if isinstance(step, Refusal) else cast(Refusal, route)
        routes[key_of(step)] = route
        if step.updates:
            callers = {key_of(caller) for caller, _ in sites}
            found = [
                replace(each, step=replace(each.step, updates=(), early_ends=()))
                if key_of(each.step) in callers
                else each
                for each in found
            ]
        found.append(ScaledStep(step, route))
    return found


def _route(
    part: Gathered,
    function: FunctionRef | None,
    split: Split,
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
    together = _called_with(function, split)
    if any(key_of(caller) not in routes for sites in together.values() for caller, _ in sites):
        return part.without_step
    handed = {
        each: [
            *((site, routes[key_of(caller)]) for caller, site in sites),
            *((site, Route("None")) for site in split.idle[each]),
        ]
        for each, sites in together.items()
    }
    return hand_on(function, handed, unfilled(roles.project, function))


def _called_with(function: FunctionRef, split: Split) -> dict[FunctionRef, _Sites]:
    """A function of a split step with its calls, and the others that these may run, with theirs."""
    found: dict[FunctionRef, _Sites] = {}
    todo = [function]
    while todo:
        each = todo.pop()
        found[each] = split.calls[each]
        calls = {site.call for _, site in found[each]}
        others = (other for other, sites in split.calls.items() if any(site.call in calls for _, site in sites))
        todo += (other for other in others if other not in found and other not in todo)
    return {each: sites for each, sites in split.calls.items() if each in found}


def _stepper(function: FunctionRef, sites: _Sites, roles: Roles) -> TrainingStep | Refusal:
    """The part of a function that steps and does not go backward; what it reads of gradients, it unscales itself.

    Where it steps only sometimes, it updates the scaler, too: that is for its callers where it always does.
    """
    file, body = function.file, block_of(function.node)
    steps = [*optimizer_steps(roles, file, body)]
    uses = gradient_uses(file, roles, body, [], steps, frozenset())
    if isinstance(uses, Refusal):
        return uses
    unscaling = any(isinstance(use, GradientUse) for caller, _ in sites for use in caller.gradient_uses)
    if uses and unscaling:  # a scaler unscales once for each step
        limit = uses[0].limit if isinstance(uses[0], ScaledUse) else None
        return read_apart(function, uses[0].before if limit is None else limit)
    updates: tuple[Statement, ...] | Refusal = ()
    if any(not _always_runs(file, body, each) for each in steps):
        updates = place_updates(file, [], steps)
    stepped = [each.part for caller, _ in sites for each in caller.optimizer_steps]
    is_all = not unscaling and all(part is not None and part.node is function.node for part in stepped)
    fit = all(not each.call.args and is_alone(each.statement, each.call) for each in steps)
    if not fit or isinstance(updates, Refusal) or (updates and not is_all):
        return Refusal(
            file,
            steps[0].statement,
            f"{function.name}() does not always step, and scaler.update() would have nothing to go by",
            "step by scaler.step() in it, and call scaler.update() behind that, by hand",
        )
    return TrainingStep(
        file=file,
        function=function.node,
        gradient_uses=uses,
        optimizer_steps=tuple(steps),
        updates=updates,
    )


def _always_runs(file: File, body: Block, step: OptimizerStep) -> bool:
    """Whether a step is made whenever its function is called."""
    loop = loop_over_optimizers(file, step)
    runs = loop if isinstance(loop, cst.For) else step.statement
    before = (each for each in nested_statements(body) if file.tree.order[each] < file.tree.order[runs])
    return runs in statements(body) and not any(isinstance(each, cst.Return) for each in before)
