"""Collections that a loop runs over: `optimizers` for `optimizers.values()`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import dotted


def collection(node: cst.CSTNode) -> cst.BaseExpression | None:
    """`optimizers` for `for optimizer in optimizers:`, or for one over `optimizers.values()`."""
    if not isinstance(node, cst.For) or not isinstance(node.target, cst.Name):
        return None
    over = values_of(node.iter)
    return over if dotted(over) is not None else None


def values_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """`optimizers` for `optimizers.values()`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "values":
        return node.func.value
    return node
