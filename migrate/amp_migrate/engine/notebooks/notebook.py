"""A Jupyter notebook as one Python module: its code cells in order, a marker line above each.

Only the cells whose code changed are written back; every other byte of the file stays, outputs and metadata included.
"""

from __future__ import annotations

import bisect
import codecs
import json
import re
from functools import cached_property
from pathlib import Path

from amp_migrate.engine.notebooks import magics
from amp_migrate.engine.notebooks.installs import installed
from amp_migrate.engine.notebooks.json_spans import Cell, cells
from amp_migrate.engine.source import Source, SourceError, display_name
from amp_migrate.frozen import frozen
from amp_migrate.pragmas import CELL

SUFFIX = ".ipynb"
_MARKER = f"{CELL}{{}}\n"
_MARKERS = re.compile(rf"^{CELL}(\d+)\n", re.MULTILINE)


@frozen
class WrittenScript:
    """A Python file that a notebook writes from one of its cells, of which it runs nothing by itself.

    Attributes:
        line: the line of the notebook where the cell begins.
        cell: its number, counted from 1.
        name: the file, as the cell names it.
        text: what it writes.
    """

    line: int
    cell: int
    name: str
    text: str


@frozen
class NotebookSource(Source):
    """A notebook. `text` is the module made of its code cells; `encode` gives the bytes of the whole notebook.

    Attributes:
        document: the notebook's JSON text.
        kept: the IPython lines of the cells, which stand in `text` as placeholders.
    """

    document: str = ""
    kept: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: str, path: Path, name: str, bom: bool = False) -> NotebookSource:
        """The notebook that a JSON text describes.

        Raises:
            SourceError: it does not describe a notebook of format 4.
        """
        try:
            found = _code_cells(document)
        except json.JSONDecodeError as error:
            raise SourceError(f"not a notebook: {error.msg}", error.lineno, error.colno) from None
        except (ValueError, RecursionError) as error:
            raise SourceError(f"not a notebook: {error}") from None
        kept: list[str] = []
        parts = []
        for number, cell in enumerate(found):
            text = magics.hide(cell.text, kept)
            parts.append(_MARKER.format(number) + text + ("" if text.endswith("\n") else "\n"))
        return cls(path, name, "".join(parts), bom=bom, document=document, kept=tuple(kept))

    @cached_property
    def installs(self) -> frozenset[str]:
        """The packages that the notebook installs by itself from elsewhere; see `installs.installed`."""
        return installed(cell.text for cell in cells(self.document) if cell.kind == "code")

    @cached_property
    def written(self) -> tuple[WrittenScript, ...]:
        """The scripts that cells write to files."""
        found: list[WrittenScript] = []
        for number, cell in enumerate(cells(self.document), start=1):
            script = magics.written_script(cell.text) if cell.kind == "code" else None
            if script is not None:
                start = cell.lines[0].start
                found.append(WrittenScript(self.document.count("\n", 0, start) + 1, number, *script))
        return tuple(found)

    def encode(self, text: str) -> bytes:
        """The bytes of the notebook with the code of `text` in its cells.

        Raises:
            SourceError: `text` is not one cell after the other any more, so that a change belongs to no cell.
        """
        document = self.document
        if text != self.text:
            new, old = _by_cell(text), _by_cell(self.text)
            if list(new) != list(old):
                raise SourceError("a change goes over the border of two cells")
            for number, cell in reversed([*enumerate(_code_cells(document))]):
                if new[number] != old[number]:
                    document = document[: cell.start] + self._written(cell, new[number]) + document[cell.end :]
        return super().encode(document)

    def with_text(self, text: str) -> NotebookSource:
        """The notebook with the code of `text` in its cells.

        Raises:
            SourceError: see `encode`.
        """
        document = self.encode(text).decode("utf-8-sig")
        return NotebookSource.from_json(document, self.path, self.name, self.bom)

    def place(self, line: int) -> tuple[int, str]:
        """The line of the file where a line of `text` stands, and its name: `cell 3, line 2: `.

        Cells are counted from 1, those without code included, and lines within the cell.
        """
        markers = [match.start() for match in _MARKERS.finditer(self.text)]
        starts = [self.text.count("\n", 0, marker) + 1 for marker in markers]
        index = bisect.bisect_right(starts, line) - 1
        if index < 0:
            return 0, ""
        cell = _code_cells(self.document)[index]
        within = max(line - starts[index], 1)
        start = cell.lines[min(within, len(cell.lines)) - 1].start if cell.lines else cell.start
        number = [each.start for each in cells(self.document)].index(cell.start) + 1
        return self.document.count("\n", 0, start) + 1, f"cell {number}, line {within}: "

    def _written(self, cell: Cell, text: str) -> str:
        """The JSON of a cell's new source, in the layout of the old one."""
        try:
            text = magics.show(text, list(self.kept))
        except ValueError as error:
            raise SourceError(str(error)) from None
        if not cell.text.endswith("\n"):
            text = text.removesuffix("\n")
        ascii_only = self.document.isascii()
        if not cell.is_list:
            return json.dumps(text, ensure_ascii=ascii_only)
        if not cell.lines:
            return json.dumps(_split(text), ensure_ascii=ascii_only)
        # A line that stays is written as it was: JSON has many ways to write the same string.
        known = {line.text: self.document[line.start : line.end] for line in cell.lines}
        first, last = cell.lines[0], cell.lines[-1]
        between = self.document[first.end : cell.lines[1].start] if len(cell.lines) > 1 else ""
        opening, closing = self.document[cell.start : first.start], self.document[last.end : cell.end]
        written = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in _split(text)]
        return opening + (between or "," + opening[1:]).join(written) + closing


def _split(text: str) -> list[str]:
    # As Jupyter does; `str.splitlines` would split at form feeds and their like as well.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _code_cells(document: str) -> list[Cell]:
    return [cell for cell in cells(document) if cell.kind == "code" and magics.is_python(cell.text)]


def _by_cell(text: str) -> dict[int, str]:
    """The text of each cell, in the order of the markers; a marker that is indented now is none."""
    first, *rest = _MARKERS.split(text)
    found = {int(number): code for number, code in zip(rest[::2], rest[1::2], strict=True)}
    for number in list(found)[:1]:
        found[number] = first + found[number]  # what was put above the first marker
    return found


def read_source(data: bytes, path: Path) -> Source:
    """The source that a file's bytes are: a notebook where the path says so, Python otherwise.

    Raises:
        SourceError: they are not.
    """
    if path.suffix != SUFFIX:
        return Source.decode(data, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start}") from None
    bom = data.startswith(codecs.BOM_UTF8)
    return NotebookSource.from_json(text, path, display_name(path), bom)
