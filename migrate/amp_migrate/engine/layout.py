"""What LibCST drops from a file, put back into the migrated text.

LibCST gives back a file byte for byte but for two things: a form feed in front of a statement, and a last line that
ends in a bare carriage return. Both are kept here by comparing lines instead of trees.
"""

from __future__ import annotations

import difflib
import re

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


class LayoutError(Exception):
    """The text that LibCST gives back differs from the file in a way that cannot be put back."""


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
    if [_bare(line) for line in original_lines] != [_bare(line) for line in printed_lines]:
        raise LayoutError("LibCST does not give the file back as it was")
    matcher = difflib.SequenceMatcher(None, printed_lines, after_lines, autojunk=False)
    out: list[str] = []
    for tag, first, last, after_first, after_last in matcher.get_opcodes():
        out += original_lines[first:last] if tag == "equal" else after_lines[after_first:after_last]
    return "".join(out)


def _bare(line: str) -> str:
    return line.replace("\f", "").rstrip("\r\n")
