"""What follows from the outcome of a test, without running anything: `i % a == 0` from `i % (a * b) == 0`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

Fact: TypeAlias = "tuple[str, bool, frozenset[str]]"  # the text of a test, what it came to, the names in it
Facts: TypeAlias = "frozenset[Fact]"

# Calls whose answer is the same when they are asked again in the same iteration.
_STEADY = frozenset(("len", "isinstance", "hasattr", "getattr", "is_enabled"))


@lru_cache(maxsize=4096)
def implied(test: ast.expr, outcome: bool) -> Facts:
    """What follows from a test that came to `outcome`; `x is not None` is taken for `x`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return implied(test.operand, not outcome)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is outcome:
            return frozenset().union(*(implied(each, outcome) for each in test.values))
        return _fact(test, outcome)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        operator, other = test.ops[0], test.comparators[0]
        if isinstance(other, ast.Constant) and other.value is None and isinstance(operator, (ast.Is, ast.IsNot)):
            return implied(test.left, isinstance(operator, ast.IsNot) is outcome)
        if isinstance(operator, ast.NotEq):
            return implied(ast.Compare(test.left, [ast.Eq()], test.comparators), not outcome)
        if outcome and isinstance(operator, ast.Eq) and isinstance(other, ast.Constant) and other.value == 0:
            return _fact(test, True).union(*(_fact(each, True) for each in _by_factors(test.left, other)))
    return _fact(test, outcome)


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
    for node in ast.walk(test):
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
