"""Unified diffs on bytes, such that `git apply` takes what is piped into it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified(before: bytes, after: bytes, name: str) -> bytes:
    """The unified diff of one file, empty where nothing changed.

    Line ends and encodings stay as they are in the file: the diff of a file with CRLF has CRLF in its lines.
    """
    return b"".join(_lines(before, after, name))


def _lines(before: bytes, after: bytes, name: str) -> Iterator[bytes]:
    # Latin-1 stands for "bytes as characters": every byte there and back, whatever the encoding of the file.
    old, new = (split_lines(data.decode("latin-1")) for data in (before, after))
    # A blank in a name would end it, were it not for the tab that git itself writes there.
    end = "\t" if " " in name else ""
    path = name.lstrip("/")
    headers = (_quoted(f"{side}/{path}") + end for side in "ab")
    text = difflib.unified_diff(old, new, *("\0", "\0"), lineterm="\n")
    for line in text:
        if line.startswith(("--- \0", "+++ \0")):
            yield f"{line[:4]}{next(headers)}\n".encode("utf-8", "surrogateescape")
        elif line.endswith("\n"):
            yield line.encode("latin-1")
        else:
            yield line.encode("latin-1") + b"\n" + _NO_NEWLINE


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends."""
    # Only a line feed ends a line for git; `str.splitlines` knows a dozen more.
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _quoted(path: str) -> str:
    """A path as git writes it: in quotes with C escapes where it holds a quote, a backslash or a control character."""
    special = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    escaped = "".join(special.get(c) or (f"\\{ord(c):03o}" if ord(c) < 0x20 or ord(c) == 0x7F else c) for c in path)
    return path if escaped == path else f'"{escaped}"'
