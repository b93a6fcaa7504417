"""Programs that have been interpreted, for all plans that are made of the same files."""

from __future__ import annotations

from collections.abc import Iterable

from amp_migrate.flow.analysis import Analysis, analysed
from amp_migrate.flow.domain.contexts import ON, Autocast, Context
from amp_migrate.flow.domain.tensor import F16
from amp_migrate.flow.files import Files


class Programs:
    """A plan that has to be made again, for what was wrong with its result, asks about the same originals."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Analysis] = {}
        self._in_regions: dict[str, Analysis] = {}

    def of(self, files: Files, focus: Iterable[str], beside: Iterable[str]) -> Analysis:
        """The program of some files, with what is called from others."""
        key = tuple(focus), tuple(beside)
        if key not in self._known:
            self._known[key] = analysed(files, *key, keeps_all=True)
        return self._known[key]

    def in_region(self, files: Files, file: str) -> Analysis:
        """Any file, as it is where all that is there runs in a region of float16, whoever calls it."""
        if file not in self._in_regions:
            self._in_regions[file] = Analysis(files, [file], around=Context(Autocast(ON, F16))).run()
        return self._in_regions[file]
