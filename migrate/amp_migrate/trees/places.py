"""Where nodes stand in the text, worked out for the few that something is said about.

LibCST finds places by printing a whole module with book-keeping for every node. Here the lines of the statements around
a node are counted, and only the statement that it stands in is printed so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

Definition: TypeAlias = "cst.FunctionDef | cst.ClassDef"
_NEWLINE = re.compile(r"\r\n?|\n")


class Places:
    """The places of one module's nodes."""

    def __init__(self, module: cst.Module) -> None:
        self._module = module
        self._first_lines: dict[cst.CSTNode, int] = {}
        self._inside: dict[cst.CSTNode, dict[cst.CSTNode, tuple[int, int]]] = {}
        self._number(module.body, 1 + sum(self._lines(each) for each in module.header))

    def of(self, chain: Sequence[cst.CSTNode]) -> tuple[int, int]:
        """The 1-based line and column where a node starts.

        Args:
            chain: the node and what it stands in, nearest first, the module last.
        """
        if chain[0] is self._module:
            return 1, 1
        owners: list[Definition] = []
        below = len(chain) - 2
        # The smallest statement: down through functions and classes, as long as the node is in their bodies.
        while below >= 2 and type(chain[below]) in (cst.FunctionDef, cst.ClassDef):
            owner = cast(Definition, chain[below])
            if chain[below - 1] is not owner.body or not isinstance(owner.body, cst.IndentedBlock):
                break
            if owner.body.body and owner.body.body[0] not in self._first_lines:
                self._number(owner.body.body, self._first_lines[owner] + self._lines(_around(owner, None)) - 1)
            owners.append(owner)
            below -= 2
        statement = chain[below]
        if statement not in self._inside:
            self._inside[statement] = self._print(statement, owners)
        return self._inside[statement][chain[0]]

    def _number(self, statements: Sequence[cst.CSTNode], line: int) -> None:
        for statement in statements:
            self._first_lines[statement] = line
            line += self._lines(statement)

    def _lines(self, node: cst.CSTNode) -> int:
        return len(_NEWLINE.findall(self._module.code_for_node(node)))

    def _print(self, statement: cst.CSTNode, owners: list[Definition]) -> dict[cst.CSTNode, tuple[int, int]]:
        """The places of the nodes of one statement, printed at its depth but without its siblings."""
        shell = statement
        for owner in reversed(owners):
            shell = _around(owner, shell)
        module = self._module.with_changes(header=(), body=(shell,), footer=(), has_trailing_newline=True)
        above = len(_NEWLINE.findall(module.code)) - self._lines(statement)
        shift = self._first_lines[statement] - 1 - above
        ranges = cast(
            "Mapping[cst.CSTNode, cst.metadata.CodeRange]",
            MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider),
        )
        return {node: (place.start.line + shift, place.start.column + 1) for node, place in ranges.items()}


def _around(owner: Definition, statement: cst.CSTNode | None) -> Definition:
    """A function or class with one statement in its body, or with none, which is printed as `pass`."""
    body = cast(cst.IndentedBlock, owner.body)
    inner = () if statement is None else (statement,)
    return owner.with_changes(body=body.with_changes(body=inner, footer=()))
