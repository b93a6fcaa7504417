"""What LibCST drops from a file, put back into the migrated text.

LibCST gives back a file byte for byte but for four things: a form feed in front of a statement, a line that is indented
by other blanks than those before it in its block (seven and a tab for eight), a last line that ends in a bare carriage
return, and comments behind the last statement that are indented otherwise than this is. They are kept here by comparing
lines instead of trees. What else it drops, such as a backslash alone on a line, is not guessed at.
"""

from __future__ import annotations

import difflib
import re
from itertools import zip_longest

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_COMMENT = re.compile(r"[ \t\f]*(?:#|[\r\n]*\Z)")
_INDENTED_ANEW = re.compile(r"^[ \t\f]*\f")
_INDENT = re.compile(r"^[ \t]+")


class LayoutError(Exception):
    """The text that LibCST gives back differs from the file in a way that cannot be put back.

    Attributes:
        line: the first line of the file where it does, 1-based.
    """

    def __init__(self, line: int) -> None:
        super().__init__("left as it was: this line would not stay what it is, because the parser drops part of it")
        self.line = line


def restore(original: str, printed: str, after: str) -> str:
    """`after`, with what was lost between `original` and `printed` back in the lines that did not change.

    Args:
        original: the file's text.
        printed: what LibCST prints for it when nothing is edited.
        after: what LibCST prints for the edited tree.

    Raises:
        LayoutError: `original` and `printed` differ in more than form feeds, tabs in indents, the last line's end and
            the comments at the end.
    """
    if original == printed:
        return after
    original_lines, printed_lines, after_lines = (_LINE.findall(text) for text in (original, printed, after))
    ends = [_comments(lines) for lines in (original_lines, printed_lines, after_lines)]
    if len(ends[0]) > len(ends[1]) and ends[1] == ends[2]:
        for lines, end in zip((original_lines, printed_lines, after_lines), ends, strict=True):
            lines[len(lines) - len(end) :] = ends[0]
    for number, (line, kept) in enumerate(zip_longest(original_lines, printed_lines, fillvalue=""), start=1):
        if _bare(line) != _bare(kept):
            raise LayoutError(min(number, len(original_lines)))
    matcher = difflib.SequenceMatcher(None, printed_lines, after_lines, autojunk=False)
    out: list[str] = []
    for tag, first, last, after_first, after_last in matcher.get_opcodes():
        out += original_lines[first:last] if tag == "equal" else after_lines[after_first:after_last]
    return "".join(out)


def _comments(lines: list[str]) -> list[str]:
    """The comments and empty lines at the end of a file."""
    count = next((n for n, line in enumerate(reversed(lines)) if not _COMMENT.match(line)), len(lines))
    return lines[len(lines) - count :]


def _bare(line: str) -> str:
    # A form feed before a statement begins its indentation anew, and a tab goes on to the next eighth column.
    anew = _INDENTED_ANEW.sub("", line).replace("\f", "")
    return _INDENT.sub(lambda indent: indent[0].expandtabs(8), anew).rstrip("\r\n")
