"""Collections, and what is taken from them: by a key, or by a loop over one, `optimizers` for `optimizers.values()`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.trees.nodes import Statement

# What runs a generator to its end.
_GATHERING = frozenset({"list", "set", "tuple"})


def collection(loop: cst.CSTNode, item: str | None) -> cst.BaseExpression | None:
    """`optimizers` for the `optimizer` of `for optimizer in optimizers:`, a comprehension's too.

    The same for a loop over `optimizers.values()`, or for one that takes it out of a pair: `zip(optimizers, losses)`.
    """
    over = items(loop).get(item or "") if isinstance(loop, (cst.For, cst.CompFor)) else None
    return over if dotted(over) is not None else None


def items(loop: cst.For | cst.CompFor) -> dict[str, cst.BaseExpression]:
    """What a loop calls an item of each collection that it runs over, with that."""
    return dict(_items(loop.target, loop.iter))


def _items(target: cst.BaseExpression, over: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    if isinstance(target, cst.Name):
        yield target.value, values_of(over)
    if not isinstance(target, (cst.Tuple, cst.List)) or not isinstance(over, cst.Call):
        return
    parts = [each.value for each in target.elements]
    given = [each.value for each in over.args]
    if isinstance(over.func, cst.Attribute) and over.func.attr.value == "items" and len(parts) == 2:
        yield from _items(parts[1], over.func.value)
    elif dotted(over.func) == "enumerate" and given and len(parts) == 2:
        yield from _items(parts[1], given[0])
    elif dotted(over.func) == "zip" and len(parts) <= len(given) and not any(each.star for each in over.args):
        for part, value in zip(parts, given, strict=False):
            yield from _items(part, value)


def held_in(file: File, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The collections that an object is taken from: by a key under which nothing by itself is put, or by a loop."""
    bindings = object_bindings(file, node)
    by_key = [node.value] if isinstance(node, cst.Subscript) and not bindings else []
    looped = (collection(binding.node, dotted(node)) for binding in bindings)
    return [*by_key, *(each for each in looped if each is not None)]


def elements(value: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """What a list, a tuple, a dictionary or a comprehension that is written out puts into a collection."""
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        return [each.value for each in value.elements]
    if isinstance(value, cst.BaseSimpleComp):
        return [value.elt]
    return [value.value] if isinstance(value, cst.DictComp) else []


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


def chosen_in(statement: Statement) -> cst.IfExp | None:
    """`optimizer.step() if is_finite else optimizer.zero_grad()`, where that is all of a statement."""
    value = statement.value if isinstance(statement, cst.Expr) else None
    return value if isinstance(value, cst.IfExp) else None


def values_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """`optimizers` for `optimizers.values()`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "values":
        return node.func.value
    return node
