"""Puts the lines of a changed block together: what is wrapped, and the comments of statements that are gone."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.trees.nodes import Line, Statement
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
        self._wrap: tuple[Statement, cst.With, tuple[Line, ...]] | None = None
        self._wrapped: list[Line] = []

    def carry(self, comments: Sequence[cst.EmptyLine]) -> None:
        """Keep comments for the next line."""
        self.carried = joined(self.carried, comments)

    def emit(self, *lines: Line) -> None:
        """Put lines behind what there is: into the open body, if there is one."""
        for line in lines:
            if self._wrap is None and not self.carried:
                self.lines.append(line)
                continue
            lead = joined(self.carried, line.leading_lines)
            self.carried = []
            if self._wrap is None:
                self.lines.append(line.with_changes(leading_lines=lead))
            else:
                self._wrapped.append(line.with_changes(leading_lines=[flush(each) for each in lead]))

    def open(self, last: Statement, head: cst.With, tail: tuple[Line, ...]) -> None:
        """Begin the body of `head`, which goes on to the old statement `last`."""
        self._wrap, self._wrapped = (last, head, tail), []

    def close_behind(self, olds: Sequence[Statement]) -> None:
        """End the open body where the last of its statements is among these."""
        if self._wrap is not None and self._wrap[0] in olds:
            _, head, tail = self._wrap
            self._wrap = None
            self.emit(head.with_changes(body=cst.IndentedBlock([*self._wrapped, *tail], indent=self._indent)))
