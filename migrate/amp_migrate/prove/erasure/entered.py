"""What a `with` enters for a loss that it gives: Apex's scaled one, or what stands in its place, wherever made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from amp_migrate.prove.code.arguments import arguments
from amp_migrate.prove.code.scopes import parameters
from amp_migrate.prove.code.trees import is_quiet, is_same

Naming = Callable[[ast.expr], str]
_SCALES = "apex.amp.scale_loss"
_ENTERS_AS_IT_IS = "contextlib.nullcontext"
_MAKES_CONTEXTS = "contextlib.contextmanager"


def entered_loss(node: ast.expr, name: Naming) -> ast.expr | None:
    """The loss that a context gives, scaled or as it is, by whichever way it was chosen.

    Args:
        name: the full name that an expression stands for.
    """
    return _one([loss for _, loss in _ways(node, name)])


def scaled_loss(node: ast.expr, name: Naming) -> ast.expr | None:
    """The same where Apex scales it on one way at least."""
    return entered_loss(node, name) if any(is_scaled for is_scaled, _ in _ways(node, name)) else None


def given_loss(function: ast.AST, name: Naming) -> str:
    """The parameter whose scaled loss a function gives to a `with`, and does nothing else; empty for any other."""
    if not isinstance(function, ast.FunctionDef):
        return ""
    decorators = [name(each) for each in function.decorator_list]
    if decorators not in ([], [_MAKES_CONTEXTS]):
        return ""
    ways = [*_given(function.body, name, yields=bool(decorators))]
    loss = _one([each for _, each in ways])
    is_given = isinstance(loss, ast.Name) and loss.id in {each.arg for each in parameters(function.args)}
    return loss.id if isinstance(loss, ast.Name) and is_given and any(scaled for scaled, _ in ways) else ""


def _one(losses: list[ast.expr | None]) -> ast.expr | None:
    first = losses[0] if losses else None
    return first if first is not None and all(each is not None and is_same(each, first) for each in losses) else None


def _ways(node: ast.expr, name: Naming) -> Iterator[tuple[bool, ast.expr | None]]:
    """Whether Apex scales what a context gives, on each way to it, and the loss; None for any other context."""
    if isinstance(node, ast.IfExp) and is_quiet(node.test):
        yield from (*_ways(node.body, name), *_ways(node.orelse, name))
        return
    made = name(node.func) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and made == _SCALES:
        yield True, arguments(node, ("loss",)).get("loss")
    elif isinstance(node, ast.Call) and made == _ENTERS_AS_IT_IS and len(node.args) == 1 and not node.keywords:
        yield False, node.args[0]
    else:
        yield False, None


def _given(body: Iterable[ast.stmt], name: Naming, *, yields: bool) -> Iterator[tuple[bool, ast.expr | None]]:
    for node in body:
        value = node.value if isinstance(node, (ast.Expr, ast.Return)) else None
        if isinstance(node, (ast.Import, ast.ImportFrom)) or isinstance(value, ast.Constant):
            continue
        if isinstance(node, ast.If) and is_quiet(node.test):
            yield from _given([*node.body, *node.orelse], name, yields=yields)
        elif isinstance(value, ast.Yield) and yields:
            yield False, value.value
        elif isinstance(node, ast.With) and yields and len(node.items) == 1 and _gives_on(node):
            yield from _ways(node.items[0].context_expr, name)
        elif isinstance(node, ast.Return) and value is not None and not yields:
            yield from _ways(value, name)
        else:
            yield False, None


def _gives_on(node: ast.With) -> bool:
    """Whether a `with` does nothing but yield what it has entered."""
    only = node.body[0] if len(node.body) == 1 else None
    value = only.value if isinstance(only, ast.Expr) else None
    given, entered = value.value if isinstance(value, ast.Yield) else None, node.items[0].optional_vars
    return isinstance(given, ast.Name) and isinstance(entered, ast.Name) and given.id == entered.id
