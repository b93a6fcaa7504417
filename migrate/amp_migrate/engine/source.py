"""A file between bytes and text, with nothing lost on the way there and back."""

from __future__ import annotations

import codecs
import io
import os
import tokenize
from dataclasses import replace
from pathlib import Path
from typing import Any

from amp_migrate.frozen import frozen

_NAME_A_CODEC = "name a text encoding that Python knows in the first line"


class SourceError(Exception):
    """A file that cannot be read as Python source.

    Attributes:
        message: the fact, in one line without a full stop.
        line: 1-based line, 0 where no line applies.
        column: 1-based column in characters, 0 where no column applies.
        hint: the next step, empty where there is none.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint


@frozen
class Source:
    """One Python file as it was read.

    Attributes:
        path: where the file is.
        name: the file as the user named it, with forward slashes.
        text: the decoded text without a byte order mark; line ends are the file's own.
        encoding: the codec that the byte order mark or the encoding cookie asks for.
        bom: whether the file begins with a UTF-8 byte order mark.
    """

    path: Path
    name: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @classmethod
    def decode(cls, data: bytes, path: Path, name: str | None = None) -> Source:
        """The source that `data` holds.

        Raises:
            SourceError: the bytes are binary, or are not in the encoding that they claim.
        """
        bom = data.startswith(codecs.BOM_UTF8)
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SourceError("UTF-16 is not an encoding of Python source", hint="save the file as UTF-8")
        nul = data.find(b"\0")
        if nul >= 0:
            line, column = _place(data, nul)
            raise SourceError("binary: the file holds a NUL byte", line, column)
        encoding = _declared_encoding(data)
        body = data[len(codecs.BOM_UTF8) :] if bom else data
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError as error:
            line, column = _place(body, error.start)
            byte = body[error.start]
            hint = "save it as UTF-8, or name its encoding in the first line: # -*- coding: latin-1 -*-"
            raise SourceError(f"not {encoding.upper()}: byte 0x{byte:02x}", line, column, hint) from None
        except LookupError:  # `hex`, `rot13`: codecs, but not of text
            raise SourceError(f"unknown encoding: {encoding}", 1, hint=_NAME_A_CODEC) from None
        source = cls(path, display_name(path) if name is None else name, text, encoding, bom)
        if source.encode(text) != data:
            raise SourceError(f"cannot be written back byte for byte in {encoding}", hint="save it as UTF-8")
        return source

    def encode(self, text: str) -> bytes:
        """`text` as bytes of this file: its encoding, and its byte order mark if it has one."""
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)

    def place(self, line: int) -> tuple[int, str]:
        """The line of the file where a line of `text` stands, and words to put before what is said of it."""
        return line, ""

    def with_text(self, text: str) -> Source:
        """The same file with other text."""
        return replace(self, text=text)


def from_here(path: Path) -> Path:
    """An absolute path as a user in the current folder would name it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def display_name(path: Path) -> str:
    """A path as the user named it: forward slashes, and escapes for bytes that are not text."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _declared_encoding(data: bytes) -> str:
    lines = io.BytesIO(data[:4096])  # a cookie stands in the first two lines or nowhere
    try:
        encoding, _ = tokenize.detect_encoding(lines.readline)
    except SyntaxError as error:
        # The two causes: a cookie that names no codec, and a first line that is not in the encoding it is taken for.
        if "unknown encoding" in str(error) or "encoding problem" in str(error):
            raise SourceError(str(error.msg), 1, hint=_NAME_A_CODEC) from None
        return "utf-8"
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _place(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, the column counted in characters as far as the line can be decoded."""
    head = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    start = head.rfind(b"\n") + 1
    return head.count(b"\n") + 1, len(head[start:].decode("utf-8", "replace")) + 1


def keep_latest(kept: dict[Source, Any], most: int) -> None:
    """Forget what a dictionary got first, so that the texts of the files in it have at most so many characters."""
    size = sum(len(each.text) for each in kept)
    while size > most:
        oldest = next(iter(kept))
        size -= len(oldest.text)
        del kept[oldest]


class LatestRead:
    """The files that were read last, each with the bytes that are searched for words.

    Args:
        most: so many bytes at the most; before there are more, all are forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._files: dict[str, tuple[bytes, Source]] = {}

    def get(self, file: str) -> tuple[bytes, Source] | None:
        """What was read of a file, if that is kept."""
        return self._files.get(file)

    def keep(self, file: str, words: bytes, source: Source) -> None:
        """Keep what was read of a file."""
        if self._size + len(words) > self._most:
            self._files.clear()
            self._size = 0
        if len(words) <= self._most:
            self._files[file] = words, source
            self._size += len(words)
