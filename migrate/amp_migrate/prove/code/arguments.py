"""Which argument of a call goes into which parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.prove.code.scopes import Function


def arguments(call: ast.Call, names: Iterable[str]) -> dict[str, ast.expr]:
    """The arguments of a call by the parameters that are in `names`, in their order; starred ones end the list."""
    found: dict[str, ast.expr] = {}
    order = list(names)
    for name, value in zip(order, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        found[name] = value
    found.update((each.arg, each.value) for each in call.keywords if each.arg in order)
    return {name: found[name] for name in order if name in found}


def bound(function: Function, call: ast.Call, skipped: int) -> Iterator[tuple[str, ast.expr | None]]:
    """The parameters that a call fills, and with what; None stands for what a starred argument may bring."""
    positional = [*function.args.posonlyargs, *function.args.args][skipped:]
    for index, value in enumerate(call.args):
        if isinstance(value, ast.Starred):
            yield from ((each.arg, None) for each in positional[index:])
            break
        if index < len(positional):
            yield positional[index].arg, value
    names = {each.arg for each in (*positional, *function.args.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg in names:
            yield keyword.arg, keyword.value


def is_static(node: Function) -> bool:
    """Whether a method takes no object."""
    return any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in getattr(node, "decorator_list", ()))
