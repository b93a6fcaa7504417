"""Which files below a folder belong to a run: what the user chose, as one value."""

from __future__ import annotations

import os
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.engine.find.gitignore import compiled
from amp_migrate.frozen import frozen

if TYPE_CHECKING:
    import pathspec

# Folders that hold other people's code, or copies of one's own.
EXCLUDED_FOLDERS = frozenset(
    ".direnv .eggs .git .hg .hypothesis .ipynb_checkpoints .mypy_cache .nox .pytest_cache .pytype .ruff_cache .svn "
    ".tox .venv __pycache__ __pypackages__ _build build dist node_modules site-packages venv".split()
)
SUFFIXES = (".py", ".pyw", ".ipynb")


@frozen
class Selection:
    """What of a folder is searched. A file that is named itself is always in.

    Attributes:
        include: patterns in the manner of `.gitignore`; only files that match one are taken. None at all: Python files.
        exclude: such patterns for files and folders that are passed over, besides `EXCLUDED_FOLDERS`.
        base: the folder that patterns with a slash are relative to.
        gitignore: whether what git ignores is passed over.
        without: a file or folder to keep out, whatever else holds.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    base: Path = field(default_factory=Path)
    gitignore: bool = True
    without: Path | None = None

    def takes_folder(self, name: str, real: str) -> bool:
        """Whether a folder of this name at this real path is searched."""
        return name not in EXCLUDED_FOLDERS and not self._excluded(real, is_folder=True)

    def takes_file(self, name: str, real: str) -> bool:
        """Whether a file of this name at this real path is taken."""
        if self.include:
            if not self._include_spec.match_file(self._relative(real)):
                return False
        elif not name.endswith(SUFFIXES):
            return False
        return not self._excluded(real, is_folder=False)

    def _excluded(self, real: str, *, is_folder: bool) -> bool:
        if self._unwanted is not None and os.path.commonpath([self._unwanted, real]) == self._unwanted:
            return True
        if not self.exclude:
            return False
        return self._exclude_spec.match_file(self._relative(real) + ("/" if is_folder else ""))

    def _relative(self, real: str) -> str:
        return os.path.relpath(real, self._real_base).replace(os.sep, "/")

    @cached_property
    def _real_base(self) -> str:
        return os.path.realpath(self.base)

    @cached_property
    def _unwanted(self) -> str | None:
        return None if self.without is None else os.path.realpath(self.without)

    @cached_property
    def _include_spec(self) -> pathspec.GitIgnoreSpec:
        return compiled(list(self.include))

    @cached_property
    def _exclude_spec(self) -> pathspec.GitIgnoreSpec:
        return compiled(list(self.exclude))
