"""Functions that step an optimizer for somebody who went backward: `optimizer.step_and_update_lr()`.

A scaler has to step what such a function steps, so the function takes part in the training step of its callers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, is_of_torch_optim
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.looped import collection, in_each
from amp_migrate.analysis.values.optimizers import OPTIMIZER_SIGN
from amp_migrate.steps.model.training_step import OptimizerStep
from amp_migrate.steps.read.value_calls import ValueCalls
from amp_migrate.trees import build
from amp_migrate.trees.nodes import Block, Statement, block_of, find, statements
from amp_migrate.trees.own_calls import calls_in

# The head of a class, unless it surely has a base: most optimizers are classes of `torch.optim.Optimizer`.
_WITHOUT_BASE = re.compile(r"^[ \t]*class[ \t]+\w+\b\s*(?!\(\s*(?!object\b)[\w.]+\s*[,)])", re.MULTILINE)


class Steppers:
    """Knows the project's functions that step an optimizer and do not go backward.

    Args:
        values: knows what a call may run, and who calls a method whose name says nothing, as many have it.
    """

    def __init__(self, roles: Roles, values: ValueCalls) -> None:
        self._roles = roles
        self.values = values

    def calls(self, file: File, body: Block) -> list[OptimizerStep]:
        """The calls of such functions in a body, each as the step of the optimizer that it is about."""
        found: list[OptimizerStep] = []
        for statement, call in calls_in(body):
            function = self._meant(file, call)
            if function is None:
                continue
            own = next(optimizer_steps(self._roles, function.file, block_of(function.node)), None)
            optimizer = _optimizer_at(function, call, own)
            if optimizer is not None:
                found.append(OptimizerStep(statement, call, optimizer, function, _held(call, own)))
        return found

    def sites(self, function: FunctionRef) -> Sequence[CallSite] | None:
        """The calls of a method `step()`, by what they run; None for any other."""
        if function.name != "step" or function.owner is None:
            return None
        together = self.values.together(function) or {}
        return together[function] if set(together) == {function} else ()

    def _wrapper(self, file: File, call: cst.Call, receiver: cst.BaseExpression) -> FunctionRef | None:
        """The `step()` of a class of the project that wraps an optimizer, and shows a scaler nothing of it."""
        is_torchs = is_of_torch_optim(file, self._roles.bindings(file, receiver))
        functions = self.values.may_run(file, call) if self._has_wrappers and not is_torchs else ()
        return next(filter(self._is_of_wrapper, functions), None)

    @cached_property
    def _has_wrappers(self) -> bool:
        """Whether some class of the project has such a method; where none does, nobody is asked."""
        project = self._roles.project
        files = project.library.defining(
            "step", text=lambda text: bool(OPTIMIZER_SIGN.search(text) and _WITHOUT_BASE.search(text))
        )
        methods = (project.reference(file, each) for file in files for each in file.methods.get("step", ()))
        return any(map(self._is_of_wrapper, methods))

    def _is_of_wrapper(self, function: FunctionRef) -> bool:
        """Whether a method steps an optimizer, and is one of a class that shows a scaler nothing of it."""
        owner = function.owner
        if owner is None or not all(dotted(base.value) == "object" for base in owner.bases):
            return False
        methods = {each.name.value for each in find(owner.body, cst.FunctionDef)}
        shows = "param_groups" in methods or function.file.class_attribute(owner, "self.param_groups")
        steps = optimizer_steps(self._roles, function.file, block_of(function.node))
        return not shows and "__getattr__" not in methods and any(True for _ in steps)

    def _meant(self, file: File, call: cst.Call) -> FunctionRef | None:
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and self._roles.is_optimizer(file, call.func.value)
        ):
            return self._wrapper(file, call, call.func.value)
        project = self._roles.project
        function = project.meant(file, call, "step") or project.method_of_given(file, call)
        is_one = function is not None and not _goes_backward(function.node) and self._always_steps(function)
        return function if is_one else None

    def _always_steps(self, function: FunctionRef) -> bool:
        steps = optimizer_steps(self._roles, function.file, block_of(function.node))
        return any(not _is_cleared_before(function, each) for each in steps)


def _optimizer_at(function: FunctionRef, call: cst.Call, own: OptimizerStep | None) -> cst.BaseExpression | None:
    """Where the optimizer of a call comes from: the object, an argument, or the method's own. `own`: its first step."""
    over = None if own is None else loop_over_optimizers(function.file, own)
    optimizer = None if own is None else own.optimizer if over is None else collection(over, dotted(own.optimizer))
    path = dotted(optimizer)
    if optimizer is None or path is None:
        return call.func.value if isinstance(call.func, cst.Attribute) else None
    if not path.startswith("self."):
        return function.given(call, path)
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    return optimizer if receiver is None or dotted(receiver) == "self" else receiver


def _held(call: cst.Call, own: OptimizerStep | None) -> cst.BaseExpression | None:
    """`wrapper.optimizer` for a call `wrapper.step_and_update_lr()`, whose method steps `self.optimizer`."""
    path = None if own is None else dotted(own.optimizer)
    receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
    if path is None or not path.startswith("self.") or receiver is None or dotted(receiver) in (None, "self"):
        return None
    return build.expression(f"{dotted(receiver)}.{path.removeprefix('self.')}")


def optimizer_steps(roles: Roles, file: File, body: Block) -> Iterator[OptimizerStep]:
    """The calls `optimizer.step()` of a body, in source order, but for those on gradients that are just cleared."""
    for statement, call in calls_in(body):
        func = call.func
        if (
            isinstance(func, cst.Attribute)
            and func.attr.value == "step"
            and roles.is_optimizer(file, func.value)
            and not _follows_zero_grad(file, statement, func.value)
        ):
            yield OptimizerStep(statement, call, func.value)


def _is_cleared_before(function: FunctionRef, step: OptimizerStep) -> bool:
    """Whether a function clears, always and before its step, what a caller's backward pass has left."""
    body = block_of(function.node)
    own = statements(body)
    above = own[: own.index(function.file.tree.lift(step.statement, body))]
    return any(_clears(each, step.optimizer) for each in above)


def loop_over_optimizers(file: File, step: OptimizerStep) -> cst.For | cst.CompFor | None:
    """The loop `for optimizer in optimizers:` whose body a step stands in directly, or that of a comprehension."""
    each, item = in_each(step.statement, step.call), dotted(step.optimizer)
    if each is not None:
        return each if collection(each, item) is not None else None
    loop = file.tree.loop(step.statement)
    if not isinstance(loop, cst.For) or step.statement not in statements(block_of(loop)):
        return None
    return loop if collection(loop, item) is not None else None


def _follows_zero_grad(file: File, statement: Statement, optimizer: cst.BaseExpression) -> bool:
    """Whether `optimizer.zero_grad()` comes right before: a scaler has no part in a step that only sets things up."""
    above = _before(file, statement)
    return above is not None and _clears(above, optimizer)


def _clears(statement: Statement, optimizer: cst.BaseExpression) -> bool:
    """Whether a statement is `optimizer.zero_grad()`."""
    if not isinstance(statement, cst.Expr) or not isinstance(statement.value, cst.Call):
        return False
    return dotted(statement.value.func) == f"{dotted(optimizer)}.zero_grad"


def _before(file: File, statement: Statement) -> Statement | None:
    """What runs right before a statement: for the first in an `if` or `else`, what runs before that."""
    siblings = file.tree.siblings(statement)
    index = siblings.index(statement)
    if index:
        return siblings[index - 1]
    around = file.tree.parents[file.tree.block(statement)]
    branching = file.tree.parents[around] if isinstance(around, cst.Else) else around
    return _before(file, file.tree.statement(branching)) if isinstance(branching, cst.If) else None


def _goes_backward(node: cst.FunctionDef) -> bool:
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward" for call in find(node, cst.Call)
    )
