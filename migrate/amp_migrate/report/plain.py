"""Text from somebody else's tree on a person's terminal, or in the log of a CI service: shown, and never obeyed."""

from __future__ import annotations

import re

# Control characters, which terminals take orders from; what turns the direction of a line, and what ends one.
_ORDERS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# What the logs of CI services take orders from: `::error::` at the beginning of a line, `##[` and `##vso[` anywhere.
_COMMANDS = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(text: str, keep: str = "") -> str:
    r"""`text` without anything that does something: `\x1b[31m` in letters for what makes a terminal red.

    Args:
        keep: characters to leave as they are; without a line feed among them, the result is one line.
    """
    shown = _ORDERS.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)
    return _COMMANDS.sub(lambda match: (match[1] or "") + _escaped(match[0][-1]), shown)


def encodable(text: str) -> str:
    """`text` without lone surrogates, which no encoding has and few readers of JSON take."""
    return text.encode("utf-8", "backslashreplace").decode()


def _escaped(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
