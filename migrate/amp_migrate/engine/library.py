"""The workspace's files as the analysis asks for them: parsed once, kept while a plan is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_migrate.analysis.files import File
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


class ParsedLibrary:
    """Implements `amp_migrate.analysis.project.Library` on a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._files: dict[Path, File | None] = {}
        self._sources: dict[File, Source] = {}

    def candidates(self) -> Iterator[File]:
        """The files that may hold something to migrate."""
        return self._parsed(self._workspace.candidates())

    def mentioning(self, identifier: str) -> Iterator[File]:
        """The files that contain `identifier` as a word."""
        return self._parsed(self._workspace.mentioning(identifier))

    def module(self, dotted_name: str, importer: File) -> File | None:
        """The file that `import dotted_name` in `importer` loads; None where it is not one of the project's."""
        found = self._workspace.module(dotted_name, self._sources[importer])
        return None if found is None else self._parse(found)

    @property
    def parsed(self) -> tuple[File, ...]:
        """Every file that has been parsed so far."""
        return tuple(self._sources)

    def source(self, file: File) -> Source:
        """What a file was parsed from."""
        return self._sources[file]

    def _parsed(self, sources: Iterator[Source]) -> Iterator[File]:
        for source in sources:
            file = self._parse(source)
            if file is not None:
                yield file

    def _parse(self, source: Source) -> File | None:
        if source.path not in self._files:
            module = self._workspace.parse(source)
            file = None if module is None else File(source.name, module)
            self._files[source.path] = file
            if file is not None:
                self._sources[file] = source
        return self._files[source.path]
