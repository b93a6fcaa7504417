"""Bytes to text and back, and what is said of bytes that are no Python source."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.source import Source, SourceError
from hypothesis import given
from hypothesis import strategies as st

PATH = Path("pkg/train.py")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x = 1",
        b"x = 1\r\ny = 2\r\n",
        b"x = 1\r\ny = 2\nz = 3\r",
        b"\xef\xbb\xbfx = 1\n",
        b"\xef\xbb\xbf# coding: utf-8\nx = '\xc3\xa9'\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        b"\x0c\nif x:\n\ty\n",
        "# coding: shift_jis\nx = '\u3042'\n".encode("shift_jis"),
    ],
    ids=[
        "empty",
        "no newline",
        "crlf",
        "mixed",
        "bom",
        "bom+cookie",
        "latin-1",
        "cp1252",
        "form feed+tab",
        "shift_jis",
    ],
)
def test_bytes_survive_the_way_to_text_and_back(data: bytes) -> None:
    source = Source.decode(data, PATH)
    assert source.encode(source.text) == data


@given(st.binary(max_size=60))
def test_any_bytes_either_survive_or_are_refused(data: bytes) -> None:
    try:
        source = Source.decode(data, PATH)
    except SourceError:
        return
    assert source.encode(source.text) == data


def test_text_has_no_byte_order_mark_and_keeps_its_line_ends() -> None:
    source = Source.decode(b"\xef\xbb\xbfx\r\ny\n", PATH)
    assert (source.text, source.bom, source.name) == ("x\r\ny\n", True, "pkg/train.py")


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"x = 1\ny = '\xff'\n", (2, 6), "not UTF-8: byte 0xff"),
        ("# \u00e9\n'\u00e9".encode() + b"\xe9'", (2, 3), "not UTF-8: byte 0xe9"),
        (b"# coding: ascii\r\n\r\n'\xc3\xa9'\r\n", (3, 2), "not ASCII: byte 0xc3"),
        (b"x = 1\n\0\1\2", (2, 1), "binary: the file holds a NUL byte"),
        (b"# coding: klingon\n", (1, 0), "unknown encoding: klingon"),
        (b"# coding: hex\n6162\n", (1, 0), "unknown encoding: hex"),
        (b"\xef\xbb\xbf# coding: latin-1\n", (1, 0), "encoding problem: utf-8"),
        ("x = 1\n".encode("utf-16"), (0, 0), "UTF-16 is not an encoding of Python source"),
        (b"# coding: utf-7\nx = '+AGE-'\n", (0, 0), "cannot be written back byte for byte in utf-7"),
    ],
)
def test_bytes_that_are_no_source_are_refused_with_their_place(
    data: bytes, place: tuple[int, int], message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        Source.decode(data, PATH)
    assert ((caught.value.line, caught.value.column), caught.value.message) == (place, message)


def test_a_name_that_is_not_text_can_still_be_shown() -> None:
    path = Path("tr\udcffain.py")  # the byte 0xff, as Python reads it from a folder
    assert Source.decode(b"", path).name == "tr\\xffain.py"
