"""Contexts and decorators that switch gradients off."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import LOOP_TYPES, Statement, is_constant

_MODULES = ("torch", "torch.autograd", "torch.autograd.grad_mode")
_OFF = frozenset(f"{module}.no_grad" for module in _MODULES)
_INFERENCE = frozenset(f"{module}.inference_mode" for module in _MODULES)
_SWITCHES = frozenset(f"{module}.set_grad_enabled" for module in _MODULES)


def is_no_grad(file: File, expression: cst.BaseExpression) -> bool:
    """Whether a context manager or decorator switches gradients off, always."""
    if not isinstance(expression, cst.Call):
        return file.names.full(expression) in _OFF | _INFERENCE
    name = file.names.callee(expression)
    if name in _SWITCHES:
        return _says(expression, "False")
    return name in _OFF or (name in _INFERENCE and not _says(expression, "False"))


def _says(call: cst.Call, mode: str) -> bool:
    return bool(call.args) and is_constant(call.args[0].value, mode)


def switching_off(file: File) -> Iterator[cst.With | cst.Call]:
    """What switches gradients off in a file: contexts, and calls that do so for what comes behind them."""
    for context in file.tree.every(cst.With):
        if any(is_no_grad(file, item.item) for item in context.items):
            yield context
    for call in _switches(file):
        if _says(call, "False"):
            yield call


def is_quiet(file: File, statement: Statement) -> bool:
    """Whether a statement runs where gradients are switched off: by a context around it, or by a call above it."""
    return is_switched_off(file, statement) or any(
        isinstance(around, cst.With) and any(is_no_grad(file, item.item) for item in around.items)
        for around in file.tree.ancestors(statement)
    )


def is_switched_off(file: File, statement: Statement) -> bool:
    """Whether `torch.set_grad_enabled(False)` stands above a statement, and no other call of it in between.

    Each of them is to be a statement of a block around that one; and of a loop around it, no round may switch again.
    """
    tree = file.tree
    calls = [call for call in _switches(file) if tree.body(call) is tree.body(statement)]
    last = max(
        (each for each in calls if tree.order[each] < tree.order[statement]),
        key=lambda each: tree.order[each],
        default=None,
    )
    if last is None or not _says(last, "False"):
        return False
    around, before = (set(tree.ancestors(each)) for each in (statement, last))
    loops = {each for each in around - before if isinstance(each, LOOP_TYPES)}
    return tree.block(tree.statement(last)) in around and all(loops.isdisjoint(tree.ancestors(each)) for each in calls)


def _switches(file: File) -> Iterator[cst.Call]:
    """The calls that switch gradients for what comes behind them."""
    for use in file.uses.get("set_grad_enabled", ()):
        call = file.tree.parents[use]
        is_statement = isinstance(file.tree.parents[call], cst.Expr)
        if is_statement and isinstance(call, cst.Call) and file.names.callee(call) in _SWITCHES:
            yield call
