"""What a text imports, without parsing it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORD = re.compile("import")
_COMMENT = re.compile(r"#[^\n]*")
_AS = re.compile(r"\s+as\s")
_STATEMENT = re.compile(
    r"""[ \t\f\ufeff]*
        (?: from\b(?P<origin>(?:[\w \t.]|\\\r?\n)*?)\bimport\b | import\b )
        (?:[ \t]|\\\r?\n)*(?P<names> \((?:[^)\#]|\#[^\n]*)*\) | (?:[^\n;\#(\\]|\\\r?\n)* )""",
    re.VERBOSE,
)


def imported_modules(text: str) -> tuple[str, ...]:
    """The modules that a text may name in its import statements, relative ones with their dots.

    `from a import b` names both `a` and `a.b`, because `b` may be a module. What only looks like an import, in a
    docstring, counts as well: one file too many is looked at, and that is cheaper than parsing them all.
    """
    found: dict[str, None] = {}
    for match in _statements(text):
        names = [_name(part) for part in _COMMENT.sub("", match["names"]).strip("() \t\r\n").split(",")]
        if match["origin"] is None:
            found.update(dict.fromkeys(filter(None, names)))
            continue
        base = _name(match["origin"])
        separator = "" if base.endswith(".") else "."
        found[base] = None
        found.update(dict.fromkeys(f"{base}{separator}{name}" for name in names if name))
    return tuple(found)


def _statements(text: str) -> Iterator[re.Match[str]]:
    """The import statements of a text; each is looked for around its word, because a plain word is found at once."""
    end = 0
    for word in _WORD.finditer(text):
        if word.start() < end:
            continue
        starts = [text.rfind("\n", 0, word.start()) + 1]
        while text.endswith(("\\\n", "\\\r\n"), 0, starts[0]):
            starts.insert(0, text.rfind("\n", 0, starts[0] - 1) + 1)
        # After `;`, or the `:` of a clause on one line.
        starts += [text.rfind(mark, 0, word.start()) + 1 for mark in ";:"]
        for start in starts:
            match = _STATEMENT.match(text, start)
            if match is not None and match.end() > word.start():
                end = match.end()
                yield match
                break


def _name(text: str) -> str:
    """A dotted name as it stands in an import, without its `as` and the blanks that may stand around its dots."""
    return "".join(_AS.split(text.replace("\\", " ").strip(), maxsplit=1)[0].split())
