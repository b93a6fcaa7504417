"""Text from somebody else's tree on a person's terminal, or in the log of a CI service: shown, and never obeyed."""

from __future__ import annotations

import re

# Control characters, which terminals take orders from; what turns the direction of a line, and what ends one.
_ORDERS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# What the logs of CI services take orders from: `::error::` at the beginning of a line, `##[` and `##vso[` anywhere.
_COMMANDS = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)")


def plain(text: str) -> str:
    r"""`text` on one line, in which nothing does anything: `\x1b[31m` for the characters that make a terminal red."""
    return _COMMANDS.sub(lambda match: (match[1] or "") + _escaped(match[0][-1]), _ORDERS.sub(_escape, text))


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(character: str) -> str:
    code = ord(character)
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(
        character, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    )
