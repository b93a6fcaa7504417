"""Where the code of a notebook stands in its JSON text, so that a change touches nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from amp_migrate.frozen import frozen

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@frozen
class Line:
    """One string of a cell's `source`, where it stands in the JSON text."""

    text: str
    start: int
    end: int


@frozen
class Cell:
    """One cell of a notebook.

    Attributes:
        kind: `code`, `markdown` or `raw`.
        start, end: where the value of `source` stands, brackets or quotes included.
        lines: the strings that it is made of; a single one where `source` is a string instead of a list.
        is_list: whether `source` is a list of lines, as Jupyter writes it.
    """

    kind: str
    start: int
    end: int
    lines: tuple[Line, ...]
    is_list: bool

    @property
    def text(self) -> str:
        """The cell's source."""
        return "".join(line.text for line in self.lines)


def cells(text: str) -> Iterator[Cell]:
    """The cells of a notebook (format 4), in order.

    Raises:
        ValueError: the text is not JSON, or not the JSON of a notebook.
    """
    found: list[Cell] = []

    def on_top(key: str, start: int) -> int:
        if key != "cells":
            return _skip(text, start)
        return _array(text, start, on_cell)

    def on_cell(start: int) -> int:
        fields: dict[str, Any] = {}

        def on_field(key: str, start: int) -> int:
            fields[key], end = _DECODER.raw_decode(text, start)
            if key == "source":
                fields["span"] = start, end
            return end

        end = _object(text, start, on_field)
        if "span" in fields:
            source_start, source_end = fields["span"]
            is_list = isinstance(fields["source"], list)
            lines = tuple(_lines(text, source_start, is_list))
            found.append(Cell(str(fields.get("cell_type")), source_start, source_end, lines, is_list))
        return end

    _object(text, _BLANK.match(text).end(), on_top)  # type: ignore[union-attr]  # the pattern matches anything
    yield from found


def _lines(text: str, start: int, is_list: bool) -> Iterator[Line]:
    found: list[Line] = []

    def on_line(start: int) -> int:
        value, end = _DECODER.raw_decode(text, start)
        if not isinstance(value, str):
            raise ValueError("a cell's source is neither a string nor a list of strings")
        found.append(Line(value, start, end))
        return end

    if is_list:
        _array(text, start, on_line)
    else:
        on_line(start)
    yield from found


def _object(text: str, start: int, on_value: Callable[[str, int], int]) -> int:
    """Walk a JSON object; `on_value` is given each key and where its value starts, and returns where it ends."""

    def on_key(start: int) -> int:
        key, end = _DECODER.raw_decode(text, start)
        colon = _expect(text, end, ":")
        return on_value(str(key), _after_blank(text, colon))

    return _sequence(text, start, "{}", on_key)


def _array(text: str, start: int, on_value: Callable[[int], int]) -> int:
    return _sequence(text, start, "[]", on_value)


def _sequence(text: str, start: int, brackets: str, on_item: Callable[[int], int]) -> int:
    position = _after_blank(text, _expect(text, start, brackets[0]))
    if text[position : position + 1] == brackets[1]:
        return position + 1
    while True:
        position = _after_blank(text, on_item(position))
        if text[position : position + 1] == brackets[1]:
            return position + 1
        position = _after_blank(text, _expect(text, position, ","))


def _expect(text: str, position: int, character: str) -> int:
    position = _after_blank(text, position)
    if text[position : position + 1] != character:
        raise ValueError(f"{character!r} expected at character {position}")
    return position + 1


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


def _skip(text: str, start: int) -> int:
    return _DECODER.raw_decode(text, start)[1]
