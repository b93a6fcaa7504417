"""What stands above a statement: blank lines and comments, which move, join and go with it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile

import libcst as cst

from amp_migrate.trees.nodes import Line


def joined(above: Sequence[cst.EmptyLine], below: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines above a removed statement and those above the next one, parted by no more blank lines than before."""
    kept = list(above)
    while kept and below and not kept[-1].comment and not below[0].comment:
        kept.pop()
    return [*kept, *below]


def under(lead: Sequence[cst.EmptyLine], line: Line) -> Line:
    """A line below others that stood above another statement."""
    return line.with_changes(leading_lines=[*lead, *line.leading_lines])


def without_lead(line: Line) -> Line:
    """A line with nothing above it."""
    return line.with_changes(leading_lines=[])


def without_blanks(line: Line) -> Line:
    """A line with no blank lines at the top of what stands above it."""
    return line.with_changes(leading_lines=[*dropwhile(lambda each: each.comment is None, line.leading_lines)])


def parted(line: Line, blanks: int) -> Line:
    """A line with no fewer blank lines above it, and above its comments, than some number."""
    known = len([*takewhile(lambda each: each.comment is None, line.leading_lines)])
    new = [cst.EmptyLine(indent=False)] * max(blanks - known, 0)
    return line.with_changes(leading_lines=[*new, *line.leading_lines]) if new else line


def flush(empty: cst.EmptyLine) -> cst.EmptyLine:
    """A blank line that stays blank when its block is indented: at module level it counts as indented already."""
    return empty if empty.comment else empty.with_changes(indent=False, whitespace=cst.SimpleWhitespace(""))
