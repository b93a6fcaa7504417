"""What the analysis asks of the files of a project, however they are found."""

from __future__ import annotations

from typing import Protocol

from amp_migrate.flow.source import Module


class Files(Protocol):
    """Texts by name, and which of them an import means."""

    def text(self, file: str) -> str | None:
        """The text of a file; None where it cannot be read."""

    def module(self, file: str) -> Module | None:
        """A file, parsed; None where it cannot be read, or the running Python cannot parse it."""

    def note_run(self, statements: int) -> None:
        """Take note that a program has been interpreted, in so many statements."""

    def locate(self, dotted: str, importer: str) -> str | None:
        """The file that `import dotted` (`.engine` if relative) loads in a file; None if none of the project's."""

    @property
    def without_packages(self) -> Files | None:
        """The files of the project alone; None where these are no others."""

    def is_installed(self, file: str) -> bool:
        """Whether a file is one of an installed package, and none of the project's."""

    def shown(self, file: str) -> str:
        """A file as a reader knows it."""
