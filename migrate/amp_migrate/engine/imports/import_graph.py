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

    def brought(self, source: Source) -> frozenset[Path]:
        """The files that a file imports itself, and what the packages among them hand on."""
        return self._closure(source, lambda path: path.name == "__init__.py")

    def reachable(self, source: Source) -> frozenset[Path]:
        """A file and every file that it imports, directly or through others."""
        return self._closure(source, lambda path: True) | {source.path}

    def within(self, source: Source, imports: int) -> frozenset[Path]:
        """The files that a file brings in by way of at most so many imports."""
        found: set[Path] = set()
        level = {source.path}
        for _ in range(imports):
            level = {path for each in level for path in self.direct(each)} - found
            found |= level
        return frozenset(found)

    def groups(self, sources: Iterable[Source]) -> list[list[Source]]:
        """`sources` in groups: one that reaches another is in the other's group."""
        groups: list[list[Source]] = []
        for source in sources:
            joined, apart = [source], []
            for group in groups:
                if any(other.path in self.reachable(source) or source.path in self.reachable(other) for other in group):
                    joined += group
                else:
                    apart.append(group)
            groups = [*apart, joined]
        return groups

    def _closure(self, source: Source, goes_on: Callable[[Path], bool]) -> frozenset[Path]:
        found: set[Path] = set()
        stack = [source.path]
        while stack:
            for path in self.direct(stack.pop()):
                if path not in found:
                    found.add(path)
                    stack += [path] if goes_on(path) else []
        return frozenset(found)
