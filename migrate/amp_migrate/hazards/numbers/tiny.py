"""Tiny numbers in a text that is not parsed: most are the epsilon of a layer or an optimizer, and do no harm."""

from __future__ import annotations

import re

_TINY = r"[\d.]e-(?:0?[89]|[1-9]\d)\b"
_NUMBER = re.compile(_TINY, re.IGNORECASE)
# Lines on which such a number is added, is the limit of a clamp, or gets a name that may be.
_USED = re.compile(
    r"\+ | \b(?:def|lambda)\b | cl(?:amp|ip)"
    rf"| ^[ \t]*(?:[\w.]+[ \t]*(?::[^=]*)?=[ \t]*)?(?:float\([\"\'])?[\d.]*{_TINY}"
    rf"| {_TINY}[^\n]*\)[ \t]*(?:->[^\n]*)?:[ \t]*$",
    re.IGNORECASE | re.VERBOSE,
)


def may_be_added(text: str) -> bool:
    """Whether a number from 1e-8 down may be added to something, or be the limit of a clamp, as far as lines tell."""
    for found in _NUMBER.finditer(text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : (text.find("\n", found.end()) + 1 or len(text) + 1) - 1]
        if _USED.search(line):
            return True
    return False
