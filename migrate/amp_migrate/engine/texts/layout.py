"""What LibCST drops from a file, put back into the migrated text.

LibCST gives back a file byte for byte but for two things: a form feed in front of a statement, and a last line that
ends in a bare carriage return. Both are kept here by comparing lines instead of trees. What else it drops, such as a
backslash alone on a line, is not guessed at.
"""

from __future__ import annotations

import difflib
import re
from itertools import zip_longest

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_INDENTED_ANEW = re.compile(r"^[ \t\f]*\f")


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
        LayoutError: `original` and `printed` differ in more than form feeds and the last line's end.
    """
    if original == printed:
        return after
    original_lines, printed_lines, after_lines = (_LINE.findall(text) for text in (original, printed, after))
    for number, (line, kept) in enumerate(zip_longest(original_lines, printed_lines, fillvalue=""), start=1):
        if _bare(line) != _bare(kept):
            raise LayoutError(min(number, len(original_lines)))
    matcher = difflib.SequenceMatcher(None, printed_lines, after_lines, autojunk=False)
    out: list[str] = []
    for tag, first, last, after_first, after_last in matcher.get_opcodes():
        out += original_lines[first:last] if tag == "equal" else after_lines[after_first:after_last]
    return "".join(out)


def _bare(line: str) -> str:
    # A form feed before a statement begins its indentation anew.
    return _INDENTED_ANEW.sub("", line).replace("\f", "").rstrip("\r\n")
