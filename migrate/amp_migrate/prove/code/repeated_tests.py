"""The tests that a function asks more than once, and that come to the same while nothing they are of changes.

What a way has come by excludes others: behind `if (i + 1) % n == 0: step()`, `if (i + 1) % n != 0:` is for the rest.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from amp_migrate.counters import implied_in
from amp_migrate.implications import Fact
from amp_migrate.prove.code.scopes import DEFINITIONS

_CALL = re.compile(r"\w\(")
_APART = (*DEFINITIONS, ast.Lambda, ast.ClassDef)


class RepeatedTests:
    """Those of one function, or of a module's own code.

    Args:
        tree: its module.
        changing: the attributes that may change while it runs.
    """

    def __init__(self, tree: ast.Module, function: ast.AST, changing: frozenset[str]) -> None:
        self._tree, self._function = tree, function
        body = getattr(function, "body", ())
        nodes = [*_inside(body)] if isinstance(body, list) else []
        called = {
            each.value.id for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
        }
        shared = changing.union(*map(_bound_aside, ast.walk(tree)))
        asked: Counter[str] = Counter()
        self._names: dict[str, frozenset[str]] = {}
        for test in (each.test for each in nodes if isinstance(each, (ast.If, ast.While))):
            facts = {text: names for text, _, names in (*self._facts(test, True), *self._facts(test, False))}
            asked.update(facts.keys())
            self._names |= facts
        for text, names in [*self._names.items()]:
            # The length of something may change by its methods.
            if asked[text] < 2 or names & shared or (_CALL.search(text) and names & called):
                del self._names[text]

    def _facts(self, test: ast.expr, outcome: bool) -> Iterable[Fact]:
        return implied_in(self._tree, self._function, test, outcome)

    def answers(self, test: ast.expr, outcome: bool) -> frozenset[tuple[str, bool]]:
        """What is known of such tests where one has come to `outcome`."""
        if not self._names:
            return frozenset()
        return frozenset((text, so) for text, so, _ in self._facts(test, outcome) if text in self._names)

    def with_other_answers(self, statement: ast.stmt) -> frozenset[str]:
        """The tests that may come to something else behind a statement."""
        if not self._names:
            return frozenset()
        stored = set(_stored(statement))
        return frozenset(text for text, names in self._names.items() if not names.isdisjoint(stored))


def changing(tree: ast.Module) -> frozenset[str]:
    """The attributes that code of a module stores, but for those that constructors give their own objects."""
    made = {
        node
        for each in ast.walk(tree)
        if isinstance(each, DEFINITIONS) and each.name == "__init__"
        for node in ast.walk(each)
    }
    stored = (each for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each not in made)
    return frozenset(each.attr for each in stored if not isinstance(each.ctx, ast.Load))


def _bound_aside(node: ast.AST) -> Iterable[str]:
    """The names that other functions may change, or that an expression gives a value."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return node.names
    return [node.target.id] if isinstance(node, ast.NamedExpr) else []


def _stored(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement itself gives other values, or parts of what they name."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        parts: list[ast.AST] = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        parts = [each for each in (item.optional_vars for item in statement.items) if each is not None]
    else:
        parts = [statement]
    for each in _inside(parts):
        if isinstance(each, (*DEFINITIONS, ast.ClassDef)):
            yield each.name
        elif isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id
        elif isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load):
            yield from (inner.id for inner in ast.walk(each.value) if isinstance(inner, ast.Name))
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Some nodes and all in them, but for what functions and classes have."""
    stack = [*nodes]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _APART):
            stack += ast.iter_child_nodes(node)
