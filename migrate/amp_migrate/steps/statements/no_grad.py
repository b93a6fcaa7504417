"""Contexts and decorators that switch gradients off."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import Statement, is_constant

_QUIET = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)


def is_no_grad(file: File, expression: cst.BaseExpression) -> bool:
    """Whether a context manager or decorator switches gradients off, always."""
    if isinstance(expression, cst.Call):
        if file.names.callee(expression) == "torch.set_grad_enabled":
            first = expression.args[0].value if expression.args else None
            return is_constant(first, "False")
        expression = expression.func
    return file.names.full(expression) in _QUIET


def is_quiet(file: File, statement: Statement) -> bool:
    """Whether a statement stands under a context that switches gradients off."""
    return any(
        isinstance(around, cst.With) and any(is_no_grad(file, item.item) for item in around.items)
        for around in file.tree.ancestors(statement)
    )
