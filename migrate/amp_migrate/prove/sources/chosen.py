"""What chooses whether `apex.amp` is there, where a program says so by itself: else it has None in its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.prove.code.program import Program
from amp_migrate.prove.code.scopes import Scope, heads
from amp_migrate.syntax import nodes_in
from amp_migrate.tables.apex_names import AMP


class Chosen:
    """Knows the tests of a program that lead to `apex.amp`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._tests = {ast.unparse(each) for each in self._found()}

    def is_by(self, node: ast.expr) -> bool:
        """Whether an expression is such a test, be it by what leads there: `self.args.fp16` for `args.fp16`."""
        code = ast.unparse(node)
        return any(f".{code}".endswith(f".{each}") or f".{each}".endswith(f".{code}") for each in self._tests)

    def _found(self) -> Iterator[ast.expr]:
        for file in self._program.files.values():
            for statement, scope in file.scopes.statements:
                if isinstance(statement, ast.If):
                    parts = ([*map(nodes_in, each)] for each in (statement.body, statement.orelse))
                    brings = [any(self._brings(n, scope) for walk in part for n in walk) for part in parts]
                    yield from _leading(statement.test, brings)
                for node in (each for head in heads(statement) for each in nodes_in(head)):
                    if isinstance(node, ast.IfExp):
                        yield from _leading(
                            node.test, [self._is_apex(each, scope) for each in (node.body, node.orelse)]
                        )

    def _brings(self, node: ast.AST, scope: Scope) -> bool:
        if isinstance(node, ast.ImportFrom):
            return node.module == "apex" and any(each.name == "amp" for each in node.names)
        return isinstance(node, ast.Assign) and self._is_apex(node.value, scope)

    def _is_apex(self, node: ast.expr, scope: Scope) -> bool:
        return isinstance(node, (ast.Name, ast.Attribute)) and self._program.values.name(node, scope) == AMP


def _leading(test: ast.expr, is_there: list[bool]) -> Iterator[ast.expr]:
    """What is true of a test where it leads to `apex.amp`, by whether its branches have that."""
    if is_there == [True, False]:
        yield test
    elif is_there == [False, True]:
        yield test.operand if isinstance(test, ast.UnaryOp) else ast.UnaryOp(ast.Not(), test)
