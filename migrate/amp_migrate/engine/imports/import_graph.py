"""Which files a file needs, and which files therefore stand or fall together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


class ImportGraph:
    """Who imports whom in a workspace, found out as far as it is asked for."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._direct: dict[Path, tuple[Path, ...]] = {}

    def direct(self, path: Path) -> tuple[Path, ...]:
        """The files that a file imports itself; none of them is read."""
        if path not in self._direct:
            found = (self._workspace.locate(dotted, path) for dotted in self._workspace.imported(path))
            self._direct[path] = tuple(each for each in found if each is not None)
        return self._direct[path]

    def brought(self, path: Path) -> frozenset[Path]:
        """The files that a file imports itself, and what the packages among them hand on."""
        return self._closure(path, lambda each: each.name == "__init__.py")

    def reachable(self, path: Path) -> frozenset[Path]:
        """A file and every file that it imports, directly or through others."""
        return self._closure(path, lambda _: True) | {path}

    def within(self, path: Path, imports: int) -> frozenset[Path]:
        """The files that a file brings in by way of at most so many imports."""
        found: set[Path] = set()
        level = {path}
        for _ in range(imports):
            level = {brought for each in level for brought in self.direct(each)} - found
            found |= level
        return frozenset(found)

    def groups(self, sources: Iterable[Source]) -> list[list[Source]]:
        """`sources` in groups: one that reaches another is in the other's group."""
        groups: list[list[Source]] = []
        for source in sources:
            joined, apart = [source], []
            for group in groups:
                if any(self._are_joined(source.path, other.path) for other in group):
                    joined += group
                else:
                    apart.append(group)
            groups = [*apart, joined]
        return groups

    def _are_joined(self, one: Path, other: Path) -> bool:
        return other in self.reachable(one) or one in self.reachable(other)

    def _closure(self, path: Path, goes_on: Callable[[Path], bool]) -> frozenset[Path]:
        found: set[Path] = set()
        stack = [path]
        while stack:
            for each in self.direct(stack.pop()):
                if each not in found:
                    found.add(each)
                    stack += [each] if goes_on(each) else []
        return frozenset(found)
