"""Collections, and what is taken from them: by a key, or by a loop over one, `optimizers` for `optimizers.values()`."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.trees.nodes import Statement

# What runs a generator to its end.
_GATHERING = frozenset({"list", "set", "tuple"})


def collection(node: cst.CSTNode) -> cst.BaseExpression | None:
    """`optimizers` for `for optimizer in optimizers:`, a comprehension's too, or for one over `optimizers.values()`."""
    if not isinstance(node, (cst.For, cst.CompFor)) or not isinstance(variable(node), cst.Name):
        return None
    over = values_of(node.iter) if variable(node) is node.target else _paired(node.iter)
    return over if dotted(over) is not None else None


def held_in(file: File, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The collections that an object is taken from: by a key, or by a loop over one."""
    by_key = [node.value] if isinstance(node, cst.Subscript) else []
    looped = (collection(binding.node) for binding in object_bindings(file, node))
    return [*by_key, *(each for each in looped if each is not None)]


def elements(value: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """What a list, a tuple, a dictionary or a comprehension that is written out puts into a collection."""
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        return [each.value for each in value.elements]
    if isinstance(value, cst.BaseSimpleComp):
        return [value.elt]
    return [value.value] if isinstance(value, cst.DictComp) else []


def variable(loop: cst.For | cst.CompFor) -> cst.BaseExpression:
    """What a loop calls an item of what it runs over: `b` in `for a, b in optimizers.items()` and `enumerate()`."""
    target = loop.target
    is_pair = isinstance(target, cst.Tuple) and len(target.elements) == 2 and _paired(loop.iter) is not None
    return target.elements[1].value if is_pair and isinstance(target, cst.Tuple) else target


def _paired(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`optimizers` for `optimizers.items()` and `enumerate(optimizers)`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "items":
        return node.func.value
    if isinstance(node, cst.Call) and dotted(node.func) == "enumerate" and node.args:
        return values_of(node.args[0].value)
    return None


def in_each(statement: Statement, call: cst.Call) -> cst.CompFor | None:
    """The loop of `[optimizer.step() for optimizer in optimizers]`, where that is all that a statement does."""
    value = statement.value if isinstance(statement, cst.Expr) else None
    if isinstance(value, cst.Call) and dotted(value.func) in _GATHERING and len(value.args) == 1:
        value = value.args[0].value
        is_run = isinstance(value, cst.GeneratorExp)
    else:
        is_run = isinstance(value, (cst.ListComp, cst.SetComp))
    if not is_run or not isinstance(value, cst.BaseSimpleComp) or value.elt is not call:
        return None
    return value.for_in if value.for_in.inner_for_in is None and not value.for_in.ifs else None


def is_alone(statement: Statement, call: cst.Call) -> bool:
    """Whether a statement does nothing but make a call, once, or for each of what a comprehension runs over."""
    return (isinstance(statement, cst.Expr) and statement.value is call) or in_each(statement, call) is not None


def values_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """`optimizers` for `optimizers.values()`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "values":
        return node.func.value
    return node
