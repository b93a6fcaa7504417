"""What is known to hold on a way through a function, from the tests that it has passed."""

from __future__ import annotations

import re
from typing import TypeAlias

import libcst as cst

from amp_migrate.trees.nodes import find, is_constant
from amp_migrate.trees.tree import Tree

Fact: TypeAlias = "tuple[str, bool]"  # the text of a test, and what it came to
Facts: TypeAlias = "frozenset[Fact]"
# Calls whose answer is the same when they are asked again in the same iteration.
_STEADY = frozenset({"len", "isinstance", "hasattr", "getattr", "is_enabled"})
_WORD = re.compile(r"\w+")


def implied(tree: Tree, test: cst.BaseExpression, outcome: bool) -> Facts:
    """What follows from a test that came to `outcome`; `x is not None` is taken for `x`."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return implied(tree, test.expression, not outcome)
    if isinstance(test, cst.BooleanOperation):
        if isinstance(test.operator, cst.And) is outcome:
            return implied(tree, test.left, outcome) | implied(tree, test.right, outcome)
        return frozenset({(_text(tree, test), outcome)}) if _is_steady(test) else frozenset()
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
        if is_constant(other, "None") and isinstance(operator, (cst.Is, cst.IsNot)):
            return implied(tree, test.left, isinstance(operator, cst.IsNot) is outcome)
        if isinstance(operator, cst.NotEqual):
            same = test.with_changes(comparisons=[test.comparisons[0].with_changes(operator=cst.Equal())])
            return implied(tree, same, not outcome)
    return frozenset({(_text(tree, test), outcome)}) if _is_steady(test) else frozenset()


def contradict(known: Facts, new: Facts) -> bool:
    """Whether two sets of facts cannot hold together."""
    return any((text, not outcome) in known for text, outcome in new)


def without(known: Facts, names: frozenset[str]) -> Facts:
    """The facts that stay when `names` get new values."""
    if not names:
        return known
    return frozenset(fact for fact in known if names.isdisjoint(_WORD.findall(fact[0])))


def _text(tree: Tree, test: cst.BaseExpression) -> str:
    return " ".join(tree.code(test.with_changes(lpar=[], rpar=[])).split())


def _is_steady(test: cst.BaseExpression) -> bool:
    for call in find(test, cst.Call):
        name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
        if not (isinstance(name, cst.Name) and name.value in _STEADY):
            return False
    return True
