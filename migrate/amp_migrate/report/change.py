"""What becomes of a file, for the forms of the report that hold the change itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from amp_migrate.frozen import frozen
from amp_migrate.report.forms.diff import split_lines


@frozen
class FileChange:
    """One file's text as it was, and as it would be.

    Attributes:
        path: the file as the user named it.
    """

    path: str
    before: str
    after: str

    @property
    def hunks(self) -> Iterator[Hunk]:
        """The places that differ, from the first line to the last."""
        old, new = split_lines(self.before), split_lines(self.after)
        for what, first, last, begin, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if what != "equal":
                yield Hunk(*_place(old, first), *_place(old, last), "".join(new[begin:end]))


@frozen
class Hunk:
    """Text that stands in the place of other text, which begins and ends at 1-based lines and columns in characters.

    The end is where the first character stands that stays; nothing goes where it is the beginning.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def _place(lines: list[str], index: int) -> tuple[int, int]:
    """Where a line begins; behind the last one, the end of the text where that has no line of its own."""
    if index < len(lines) or not lines or lines[-1].endswith("\n"):
        return index + 1, 1
    return len(lines), len(lines[-1]) + 1
