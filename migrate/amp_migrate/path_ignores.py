"""Rules that a project does not want in some of its files: `"tests/" = ["AMP5"]`."""

from __future__ import annotations

import os
from dataclasses import field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from amp_migrate.frozen import frozen

if TYPE_CHECKING:
    import pathspec


@frozen
class PathIgnores:
    """Patterns of files, and the rules that are not applied there.

    Attributes:
        patterns: each in the manner of `.gitignore`, with codes or beginnings of codes.
        base: the folder that patterns with a slash are relative to.
    """

    patterns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    base: Path = field(default_factory=Path)

    def ignoring(self, code: str, name: str) -> str:
        """The first pattern by which a rule is not applied in a file; empty where there is none.

        Args:
            name: the file, as the user named it.
        """
        matching = (
            pattern for pattern, codes in self.patterns if any(prefix and code.startswith(prefix) for prefix in codes)
        )
        return next((pattern for pattern in matching if self._matches(pattern, name)), "")

    def _matches(self, pattern: str, name: str) -> bool:
        relative = os.path.relpath(os.path.realpath(name), self._real_base).replace(os.sep, "/")
        return not relative.startswith("../") and _compiled(pattern).match_file(relative)

    @cached_property
    def _real_base(self) -> str:
        return os.path.realpath(self.base)


@lru_cache
def _compiled(pattern: str) -> pathspec.GitIgnoreSpec:
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines([pattern])
