"""Gradients that are read where a loss goes backward, while the callers step: who unscales them, or goes by the scale.

They are unscaled where each call is followed by one step of an optimizer that the function can name. Elsewhere more may
be added to them, or nothing may step: then a limit is scaled, and a norm is divided by the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.gradients.gradient_uses import (
    first_reached,
    goes_backward,
    needs_true_gradients,
    on_scaled,
    shows_no_size,
    steps_after,
    unscaled_before,
    uses_gradients,
)
from amp_migrate.steps.gradients.reductions import reduces_gradients
from amp_migrate.steps.model.training_step import GradientUse, OptimizerStep, ScaledUse, TrainingStep
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Statement, block_of, nested_statements

_LEAVING = (cst.Return, cst.Continue, cst.Break)


def read_before_return(
    roles: Roles,
    step: TrainingStep,
    function: FunctionRef,
    calls: Sequence[tuple[TrainingStep, CallSite]],
    left_out: frozenset[Statement],
) -> tuple[GradientUse | ScaledUse, ...] | Refusal:
    """Where a function that goes backward for its callers reads gradients.

    Args:
        step: what the function has of a step: all but the step of the optimizer.
        calls: its callers, with the calls.
        left_out: the statements that see the gradients as they did.
    """
    file, order = function.file, function.file.tree.order
    start = order[step.place]
    behind = [s for s in nested_statements(block_of(function.node)) if s not in left_out and order[s] > start]
    using = [each for each in behind if needs_true_gradients(file, roles, each)]
    if not using:
        return ()
    anchor = first_reached(file.tree, using, block_of(function.node))
    rest = [each for each in behind if order[each] >= order[anchor]]
    is_last = all(order[each.statement] < order[anchor] for each in step.backwards)
    optimizer = None
    if is_last and not any(reduces_gradients(file, roles, each) for each in rest):
        optimizer = _stepped_once(roles, function, calls)
    if optimizer is not None:
        return (GradientUse(anchor, optimizer),)
    sized = [each for each in using if not shows_no_size(file, roles, each)]
    scaled = [on_scaled(file, roles, each) for each in sized]
    return tuple(chain(*scaled)) if all(scaled) else read_apart(function, sized[scaled.index(())])


def read_apart(function: FunctionRef, statement: cst.CSTNode) -> Refusal:
    """Says that gradients are read where nothing unscales them, or something else has."""
    return Refusal(
        function.file,
        statement,
        "gradients are read in a function that does not also go backward and step",
        "call scaler.unscale_(optimizer) before it by hand, or run with --dtype bf16, which needs no scaler",
    )


def _stepped_once(
    roles: Roles, function: FunctionRef, calls: Sequence[tuple[TrainingStep, CallSite]]
) -> cst.BaseExpression | None:
    """The optimizer, in a function's words, that steps once behind each of its calls; None where none surely does."""
    found: set[str | None] = set()
    for caller, site in calls:
        step = _only_step(roles, caller, site)
        found.add(None if step is None else _name_inside(function, site, step.held or step.optimizer))
    name = next(iter(found)) if len(found) == 1 else None
    return None if name is None else build.expression(name)


def _only_step(roles: Roles, caller: TrainingStep, site: CallSite) -> OptimizerStep | None:
    """The step that follows a call in each round, before which nothing else goes backward or reads gradients."""
    file, tree = site.file, site.file.tree
    called = tree.statement(site.call)
    starts = [tree.order[each.statement] for each in caller.backwards]
    after = steps_after(file, roles, called, starts, [*caller.optimizer_steps])
    step = after[0] if len(after) == 1 else None
    if step is None or unscaled_before(tree, step, [called], []) != GradientUse(called, step.held or step.optimizer):
        return None
    between = [
        each
        for each in nested_statements(tree.body(site.call))
        if tree.order[called] < tree.order[each] < tree.order[step.statement]
    ]
    is_read = any(isinstance(each, GradientUse) for each in caller.gradient_uses) or (
        step.part is not None
        and any(uses_gradients(step.part.file, roles, each) for each in nested_statements(block_of(step.part.node)))
    )
    is_left = any(isinstance(each, _LEAVING) for each in between)
    return None if is_read or is_left or goes_backward(tree, called, step.statement, [*caller.backwards]) else step


def _name_inside(function: FunctionRef, site: CallSite, optimizer: cst.BaseExpression) -> str | None:
    """What a function calls an optimizer of its caller: an argument, or what both see by one name."""
    path = dotted(optimizer)
    if path is None:
        return None
    root, _, attributes = path.partition(".")
    inside = function.file.scopes.inside(function.node)
    kept = [name for name, all_ in inside.bindings.items() if all(b.kind is BindingKind.PARAMETER for b in all_)]
    for name in kept:
        written = dotted(function.given(site.call, name, site.filled))
        if written in (path, root):
            return name if written == path else f"{name}.{attributes}"
    if root == "self":
        is_same = function.is_bound and site.file.tree.owner_class(site.call) is function.owner
        return path if is_same and dotted(site.call.func) == f"self.{function.name}" else None
    scope = site.file.scopes.of(site.call).find(root)
    return path if scope is not None and scope is inside.find(root) else None
