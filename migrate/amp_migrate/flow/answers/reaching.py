"""Which statements of a function may have given a name the value that it has where it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from amp_migrate.flow.source import FUNCTIONS
from amp_migrate.syntax import blocks, children, nodes_in

_DEFINES = (*FUNCTIONS, ast.ClassDef)


def reaching(body: Iterable[ast.stmt], use: ast.Name) -> frozenset[ast.stmt | None]:
    """The statements that may have bound a name last where it is used; None for what it was before all of them.

    Of a loop, a `try` and a `match` each part may have run before each other one.
    """
    ways = _Ways(use)
    ways.behind(body, frozenset({None}))
    return ways.found


class _Ways:
    """What may have bound a name, followed through statements.

    Attributes:
        found: what may have bound it where it is used.
    """

    def __init__(self, use: ast.Name) -> None:
        self._use = use
        self.found: frozenset[ast.stmt | None] = frozenset()

    def behind(self, block: Iterable[ast.stmt], now: frozenset[ast.stmt | None]) -> frozenset[ast.stmt | None]:
        """What may have bound it behind some statements, by what may have done so before them."""
        for each in block:
            now = self._behind_one(each, now)
        return now

    def _behind_one(self, statement: ast.stmt, now: frozenset[ast.stmt | None]) -> frozenset[ast.stmt | None]:
        blocks = _blocks(statement)
        own = [*_own(statement)]
        if self._use in own:
            self.found |= now
        if any(_binds(each, self._use.id) for each in own):
            now = frozenset({statement})
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self.behind(statement.body, now)
        if isinstance(statement, ast.If):
            return self.behind(statement.body, now) | self.behind(statement.orelse, now)
        inside = (each for block in blocks for top in block for each in nodes_in(top))
        now |= {each for each in inside if isinstance(each, ast.stmt) and self._is_bound_by(each)}
        for block in blocks:
            self.behind(block, now)
        return now

    def _is_bound_by(self, statement: ast.stmt) -> bool:
        return any(_binds(each, self._use.id) for each in _own(statement))


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of statements in one, but for those of a function or class, which have names of their own."""
    return [] if isinstance(statement, _DEFINES) else [*blocks(statement)]


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """What is in a statement and in none of its blocks, nor in functions in it."""
    within = {each for block in _blocks(statement) for each in block}
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _DEFINES):
            stack += [each for each in children(node) if each not in within]


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node gives a name a value, or takes it away."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == name
    return getattr(node, "name", None) == name
