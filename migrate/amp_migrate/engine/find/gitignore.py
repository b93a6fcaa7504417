"""What git would ignore, asked folder by folder on the way down a tree."""

from __future__ import annotations

import os
from dataclasses import field, replace
from typing import TYPE_CHECKING

from amp_migrate.engine.find.git_index import Tracked
from amp_migrate.frozen import frozen

if TYPE_CHECKING:
    import pathspec


@frozen
class IgnoreRules:
    """The patterns in force in one folder.

    Attributes:
        specs: a folder (real path) and the patterns that stand in it, outermost first.
        tracked: what git tracks there, and so does not ignore.
        is_closed: whether a folder around it is ignored, so that nothing but what is tracked counts.
    """

    specs: tuple[tuple[str, pathspec.GitIgnoreSpec], ...] = ()
    tracked: Tracked = field(default_factory=Tracked)
    is_closed: bool = False

    @classmethod
    def above(cls, folder: str) -> IgnoreRules:
        """The rules that a repository's folders above `folder` set for it; none where no repository is found."""
        chain = [folder]
        while not os.path.exists(os.path.join(chain[-1], ".git")):
            parent = os.path.dirname(chain[-1])
            if parent == chain[-1]:
                return cls()
            chain.append(parent)
        rules = cls(tracked=Tracked(chain[-1]))._with_file(chain[-1], os.path.join(".git", "info", "exclude"))
        for each in reversed(chain[1:]):
            rules = rules.inside(each)
        # A folder that is named is searched, even where git ignores it.
        return cls(tracked=rules.tracked) if rules._match(folder, is_folder=True) else rules

    def inside(self, folder: str) -> IgnoreRules:
        """These rules and those of the `.gitignore` in `folder`, if there is one."""
        return self._with_file(folder, ".gitignore")

    def of_repository(self, folder: str) -> IgnoreRules:
        """These rules in another repository inside."""
        return replace(self, tracked=Tracked(folder))

    def below(self, folder: str) -> IgnoreRules:
        """These rules in a folder that is searched, as it may be for what is tracked there alone."""
        return replace(self, is_closed=self.is_closed or self._match(folder, is_folder=True))

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether git would ignore the file or folder at the real path `path`."""
        return (self.is_closed or self._match(path, is_folder=is_folder)) and path not in self.tracked

    def _match(self, path: str, *, is_folder: bool) -> bool:
        for folder, spec in reversed(self.specs):
            relative = os.path.relpath(path, folder).replace(os.sep, "/")
            verdict = spec.check_file(f"{relative}/" if is_folder else relative).include
            if verdict is not None:
                return verdict
        return False

    def _with_file(self, folder: str, name: str) -> IgnoreRules:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return self  # not there, or not readable: git goes on without it, too
        return replace(self, specs=(*self.specs, (folder, compiled(lines))))


def compiled(patterns: list[str]) -> pathspec.GitIgnoreSpec:
    """Patterns as git reads them in a `.gitignore`."""
    import pathspec

    return pathspec.GitIgnoreSpec.from_lines(patterns)
