"""Which argument of a call goes into which parameter, and whether a function takes them at all."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from inspect import Parameter, Signature

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


def defaults(function: Function) -> dict[str, ast.expr | None]:
    """The parameters that a call need not fill, with what they are then."""
    positional = [*function.args.posonlyargs, *function.args.args]
    last = positional[len(positional) - len(function.args.defaults) :]
    found = {each.arg: value for each, value in zip(last, function.args.defaults, strict=True)}
    return found | {a.arg: v for a, v in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)}


def is_static(node: Function) -> bool:
    """Whether a method takes no object."""
    return _is_decorated(node, "staticmethod")


def is_of_class(node: Function) -> bool:
    """Whether a method takes its class."""
    return _is_decorated(node, "classmethod")


def _is_decorated(node: Function, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in getattr(node, "decorator_list", ()))


def takes(function: Function, call: ast.Call, skipped: int) -> bool:
    """Whether a function can be called so."""
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    required = len(positional) - len(args.defaults)
    listed = []
    for index, each in enumerate(positional):
        kind = Parameter.POSITIONAL_ONLY if index < len(args.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        listed.append(Parameter(each.arg, kind, default=Parameter.empty if index < required else None))
    if args.vararg is not None:
        listed.append(Parameter(args.vararg.arg, Parameter.VAR_POSITIONAL))
    for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        listed.append(Parameter(each.arg, Parameter.KEYWORD_ONLY, default=Parameter.empty if default is None else None))
    if args.kwarg is not None:
        listed.append(Parameter(args.kwarg.arg, Parameter.VAR_KEYWORD))
    try:
        signature = Signature(listed[skipped:])
    except ValueError:
        return True
    return fits(signature, call)


def fits(signature: Signature, call: ast.Call) -> bool:
    """Whether a call fits a signature, as far as it is written out."""
    positional = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    keywords = {each.arg: each.value for each in call.keywords if each.arg is not None}
    is_open = len(positional) < len(call.args) or len(keywords) < len(call.keywords)
    try:
        # What is starred may hold anything: only what is written out can be wrong.
        (signature.bind_partial if is_open else signature.bind)(*positional, **keywords)
    except TypeError:
        return False
    return True
