"""Puts the lines of a changed block together: what is wrapped, and the comments of statements that are gone."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.trees.nodes import Line, Statement
from amp_migrate.write.indents import deeper
from amp_migrate.write.leads import flush, joined


class NewBlock:
    """The lines of a block while it is put together.

    Args:
        indent: that of a body in it.

    Attributes:
        lines: what it has so far.
        carried: the comments of statements that are gone, which the next line takes over.
    """

    def __init__(self, indent: str) -> None:
        self._indent = indent
        self.lines: list[Line] = []
        self.carried: list[cst.EmptyLine] = []
        # The bodies that are open, the outermost first, each with what it has so far.
        self._open: list[tuple[Statement, cst.With, tuple[Line, ...], list[Line]]] = []

    def carry(self, comments: Sequence[cst.EmptyLine]) -> None:
        """Keep comments for the next line."""
        self.carried = joined(self.carried, comments)

    def emit(self, *lines: Line) -> None:
        """Put lines behind what there is: into the body that was opened last, if one is open."""
        body = self._open[-1][-1] if self._open else self.lines
        for line in lines:
            if not self._open and not self.carried:
                body.append(line)
                continue
            lead = joined(self.carried, line.leading_lines)
            self.carried = []
            body.append(line.with_changes(leading_lines=[flush(each) for each in lead] if self._open else lead))

    def open(self, last: Statement, head: cst.With, tail: tuple[Line, ...]) -> None:
        """Begin the body of `head`, which goes on to the old statement `last`, in the one that is open."""
        self._open.append((last, head, tail, []))

    def close_behind(self, olds: Sequence[Statement]) -> None:
        """End the open bodies where the last of their statements is among these."""
        while self._open and self._open[-1][0] in olds:
            _, head, tail, lines = self._open.pop()
            body = [*(deeper(each, self._indent) for each in lines), *tail]
            self.emit(head.with_changes(body=cst.IndentedBlock(body, indent=self._indent)))
