"""What follows from the outcome of a test, without running anything: `i % a == 0` from `i % (a * b) == 0`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from amp_migrate.syntax import nodes_in

Fact: TypeAlias = "tuple[str, bool, frozenset[str]]"  # the text of a test, what it came to, the names in it
Facts: TypeAlias = "frozenset[Fact]"

# Calls whose answer is the same when they are asked again in the same iteration.
_STEADY = frozenset(("len", "isinstance", "hasattr", "getattr", "is_enabled"))


@lru_cache(maxsize=4096)
def implied(test: ast.expr, outcome: bool) -> Facts:
    """What follows from a test that came to `outcome`; `x is not None` and `bool(x)` are taken for `x`, and `i % n` for
    `i % n != 0`.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return implied(test.operand, not outcome)
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "bool" and len(test.args) == 1:
        return implied(test.args[0], outcome)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is outcome:
            whole = frozenset() if outcome else _fact(test, outcome)  # an `or` that is asked again comes to the same
            return whole.union(*(implied(each, outcome) for each in test.values))
        return _fact(test, outcome)
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod):
        return implied(ast.Compare(test, [ast.Eq()], [ast.Constant(0)]), not outcome)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, other = test.ops[0], test.comparators[0]
        if isinstance(other, ast.Constant) and other.value is None and isinstance(operator, (ast.Is, ast.IsNot)):
            return implied(test.left, isinstance(operator, ast.IsNot) is outcome)
        if isinstance(operator, ast.NotEq):
            return implied(ast.Compare(test.left, [ast.Eq()], test.comparators), not outcome)
        if outcome and isinstance(operator, ast.Eq) and isinstance(other, ast.Constant) and other.value == 0:
            return _fact(test, True).union(*(_fact(each, True) for each in _by_factors(test.left, other)))
    return _fact(test, outcome)


@dataclass(frozen=True, eq=False)
class Rounds:
    """How a loop counts its rounds: by which name, what the last number is written as, and what it comes to."""

    index: str
    last: str
    total: ast.expr


def rounds_of(loop: ast.For | ast.AsyncFor, counted: Callable[[ast.expr], ast.expr]) -> Rounds | None:
    """How a loop over `enumerate(x)`, or `range(n)`, counts; None for others, and where it cannot be told.

    Args:
        counted: gives what has as many elements as an expression, and no progress bar round it.
    """
    source = counted(loop.iter)
    if not (isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.args):
        return None
    index, others = loop.target, list[ast.expr]()
    total, *start = (*source.args, *(each.value for each in source.keywords))
    if source.func.id == "enumerate" and isinstance(index, ast.Tuple) and len(index.elts) == 2:
        (index, *others), total = index.elts, ast.Call(ast.Name("len"), [counted(total)], [])
    elif source.func.id != "range" or start:
        return None
    first = start[0].value if start and isinstance(start[0], ast.Constant) else None if start else 0
    if first not in (0, 1) or not isinstance(index, ast.Name) or _are_stored([index, total], [*loop.body, *others]):
        return None
    count = index if first else ast.BinOp(index, ast.Add(), ast.Constant(1))
    return Rounds(index.id, ast.unparse(count), total)


def behind_all(rounds: Rounds, facts: Facts) -> Facts:
    """What facts of the last round come to behind a loop that has gone through all of `enumerate(x)`, or `range(n)`.

    What was asked of `i + 1` was asked of `len(x)`, or `n`; of `i`, where it counts from 1.
    """
    asked = frozenset(fact for fact in facts if rounds.index in fact[2])
    return _at_the_end(rounds, asked) if asked else frozenset()


@lru_cache(maxsize=4096)
def _at_the_end(rounds: Rounds, asked: Facts) -> Facts:
    replaced = _Replaced(rounds.last, rounds.total)
    found = (implied(replaced.visit(ast.parse(text, mode="eval")).body, outcome) for text, outcome, _ in asked)
    return frozenset(fact for each in found for fact in each if rounds.index not in fact[2])


def _are_stored(expressions: Iterable[ast.expr], nodes: Iterable[ast.AST]) -> bool:
    """Whether some nodes give something another value that expressions read."""

    def word(node: ast.AST) -> str | None:
        return getattr(node, "attr", getattr(node, "id", None))

    read = {word(each) for expression in expressions for each in nodes_in(expression)} - {None}
    inside = (each for node in nodes for each in nodes_in(node))
    return any(word(e) in read for e in inside if isinstance(getattr(e, "ctx", None), (ast.Store, ast.Del)))


class _Replaced(ast.NodeTransformer):
    """Puts an expression where one with another text stands."""

    def __init__(self, text: str, other: ast.expr) -> None:
        self._text = text
        self._other = other

    def visit(self, node: ast.AST) -> Any:
        is_it = isinstance(node, ast.expr) and ast.unparse(node) == self._text
        return self._other if is_it else super().visit(node)


def _by_factors(left: ast.expr, zero: ast.expr) -> Iterator[ast.expr]:
    """`i % a == 0` and `i % b == 0` for `i % (a * b)`: what a product divides its factors do, if they are whole."""
    if not (isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)):
        return
    product = left.right
    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        for factor in (product.left, product.right):
            each = ast.BinOp(left.left, left.op, factor)
            yield ast.Compare(each, [ast.Eq()], [zero])
            yield from _by_factors(each, zero)


def _fact(test: ast.expr, outcome: bool) -> Facts:
    names: set[str] = set()
    for node in nodes_in(test):
        if isinstance(node, ast.Call):
            word = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if word not in _STEADY:
                return frozenset()
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.NamedExpr):
            return frozenset()
    return frozenset({(ast.unparse(test), outcome, frozenset(names))})
