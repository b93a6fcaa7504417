"""The workspace's files as the analysis of values asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from amp_migrate.engine.find.packages import Packages
from amp_migrate.engine.parts.work import Work, count
from amp_migrate.engine.source import Source, display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.source import Module


class FlowFiles:
    """Implements `amp_migrate.flow.files.Files` on a workspace; files are known by the names that users see.

    Args:
        packages: what is installed, for what the workspace does not have.
    """

    def __init__(self, workspace: Workspace, packages: Packages | None = None) -> None:
        self._workspace = workspace
        self._packages = packages or Packages()
        self._sources: dict[str, Source | None] = {}

    @property
    def without_packages(self) -> FlowFiles | None:
        """The files of the project alone; None where these are no others."""
        return FlowFiles(self._workspace) if self._packages else None

    def is_installed(self, file: str) -> bool:
        """Whether a file is one of an installed package, and none of the project's."""
        return self._packages.has(file)

    def shown(self, file: str) -> str:
        """A file as a reader knows it."""
        return self._packages.shown(file) if self.is_installed(file) else file

    def text(self, file: str) -> str | None:
        """The text of a file; None where it cannot be read."""
        source = self._source(file)
        return None if source is None else source.text

    def module(self, file: str) -> Module | None:
        """A file, parsed; None where it cannot be read, or the running Python cannot parse it."""
        source = self._source(file)
        return None if source is None else self._workspace.module(source)

    def note_run(self, statements: int) -> None:
        """Count a program that has been interpreted, and its statements."""
        count(Work.PROGRAMS)
        count(Work.STATEMENTS, statements)

    def locate(self, dotted: str, importer: str) -> str | None:
        """The file that `import dotted` (`.engine` if relative) loads in a file; None if none of the project's."""
        if self.is_installed(importer):
            return self._packages.locate(dotted, importer)
        source = self._source(importer)
        path = None if source is None else self._workspace.locate(dotted, source.path)
        if path is not None:
            return display_name(path)
        if source is None or not self._packages or dotted.startswith("."):
            return None
        is_beside = self._workspace.text_not_given(dotted, source.path) is not None
        return None if is_beside else self._packages.locate(dotted, importer)

    @property
    def texts(self) -> dict[str, str | None]:
        """The texts of the files of the project that were asked for: what is installed stays what it is."""
        return {file: None if source is None else source.text for file, source in self._sources.items()}

    def is_like(self, texts: Mapping[str, str | None]) -> bool:
        """Whether files have these texts."""
        sources = ((self._source(file), text) for file, text in texts.items())
        return all((None if source is None else source.text) == text for source, text in sources)

    def _source(self, file: str) -> Source | None:
        if self.is_installed(file):
            return self._packages.source(file)
        if file not in self._sources:
            self._sources[file] = self._workspace.file(Path(file))
        return self._sources[file]
