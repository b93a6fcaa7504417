"""Where nodes stand in the text, worked out for the few that something is said about.

LibCST finds places by printing a whole module with book-keeping for every node. Python's own parser, which runs at the
speed of C, knows where every statement starts; only the statement around a node is printed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|$)")
_INDENT = re.compile(r"[ \t\f]+")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
# What an `elif` is printed as when it stands alone is shorter by these letters.
_ELSE = len("el")


class Places:
    """The places of one module's nodes.

    Args:
        text: what the module was parsed from.
        statements: all statements of the module, `elif` branches included, parents before children.

    Attributes:
        is_of_this_python: whether the running Python parses the text.
    """

    def __init__(self, module: cst.Module, text: str, statements: Sequence[cst.CSTNode]) -> None:
        self._module = module
        self._inside: dict[cst.CSTNode, Mapping[cst.CSTNode, tuple[int, int]]] = {}
        self._lines = _LINE.findall(text)
        found = self._found(text)
        self.is_of_this_python = found is not None
        # Python may read the module in another way.
        is_alike = found is not None and len(found) == len(statements)
        self._starts = dict(zip(statements, found or (), strict=True)) if is_alike else {}

    def of(self, chain: Sequence[cst.CSTNode]) -> tuple[int, int]:
        """The 1-based line and column where a node starts.

        Args:
            chain: the node and what it stands in, nearest first, the module last.
        """
        node = chain[0]
        if node is self._module:
            return 1, 1
        index = next((i for i, each in enumerate(chain) if each in self._starts), len(chain) - 1)
        statement = chain[index]
        if statement is node:
            return self._starts[node]
        is_head = index > 0 and chain[index - 1] not in _blocks(statement)
        key = chain[index - 1] if is_head else statement
        if key not in self._inside:
            self._inside[key] = self._print(statement, chain[index + 1 :], is_head)
        return self._inside[key][node]

    def _found(self, text: str) -> list[tuple[int, int]] | None:
        """Where Python finds the statements; None where it does not read the module."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                parsed = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
        return [(each.lineno, self._column(each.lineno, each.col_offset)) for each in statements_below(parsed)]

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column of a place that Python gives in bytes of UTF-8."""
        return len(self._lines[line - 1].encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1

    def _print(
        self, statement: cst.CSTNode, around: Sequence[cst.CSTNode], head: bool
    ) -> Mapping[cst.CSTNode, tuple[int, int]]:
        """The places of the nodes of one statement, printed at its depth but without its siblings."""
        if statement is self._module:
            return {node: _start(each) for node, each in _ranges(self._module).items()}
        line, column = self._starts[statement]
        shell = _without_bodies(statement) if head else statement
        whole = (
            cst.SimpleStatementLine([shell])
            if isinstance(shell, cst.BaseSmallStatement)
            else cast(cst.BaseCompoundStatement, shell)
        )
        indent = _INDENT.match(self._lines[line - 1])
        if indent is not None:
            whole = cst.If(cst.Name("_"), cst.IndentedBlock([whole], indent=indent[0]))
        ranges = _ranges(self._module.with_changes(header=(), body=[whole], footer=(), has_trailing_newline=True))
        first_line, first_column = _start(ranges[shell])
        is_elif = isinstance(statement, cst.If) and isinstance(around[0], cst.If) and around[0].orelse is statement
        shift = column - first_column + (_ELSE if is_elif else 0)
        starts = ((node, _start(place)) for node, place in ranges.items())
        return {node: (line + row - first_line, at + shift if row == first_line else at) for node, (row, at) in starts}


def statements_below(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node, parents before children, in source order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, (ast.expr, ast.alias, ast.arguments, ast.expr_context)):
            yield from statements_below(child)


def _blocks(statement: cst.CSTNode) -> list[cst.CSTNode]:
    """What a compound statement holds below its head."""
    found: list[cst.CSTNode] = []
    for name in _BODIES:
        value = getattr(statement, name, None)
        if isinstance(value, cst.CSTNode):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(value)
    return found


def _without_bodies(statement: cst.CSTNode) -> cst.CSTNode:
    """A statement whose body is printed as `pass`, and whose other branches are not printed at all."""
    if isinstance(statement, (cst.BaseSmallStatement, cst.Match)):
        return statement
    changes: dict[str, object] = {"body": cst.SimpleStatementSuite([cst.Pass()])}
    if hasattr(statement, "orelse"):
        changes["orelse"] = None
    return statement if isinstance(statement, (cst.Try, cst.TryStar)) else statement.with_changes(**changes)


def _ranges(module: cst.Module) -> Mapping[cst.CSTNode, cst.metadata.CodeRange]:
    return cast(
        "Mapping[cst.CSTNode, cst.metadata.CodeRange]",
        MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider),
    )


def _start(place: cst.metadata.CodeRange) -> tuple[int, int]:
    return place.start.line, place.start.column + 1
