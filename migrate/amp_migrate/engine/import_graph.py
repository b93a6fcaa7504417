"""Which files a file needs, and which files therefore stand or fall together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amp_migrate.engine.imports import imported_modules
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace


class ImportGraph:
    """Who imports whom in a workspace, found out as far as it is asked for."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._direct: dict[Path, tuple[Source, ...]] = {}

    def reachable(self, source: Source) -> dict[Path, Source]:
        """`source` and every file that it imports, directly or through others."""
        found = {source.path: source}
        stack = [source]
        while stack:
            for module in self._imports(stack.pop()):
                if module.path not in found:
                    found[module.path] = module
                    stack.append(module)
        return found

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

    def _imports(self, source: Source) -> tuple[Source, ...]:
        if source.path not in self._direct:
            modules = (self._workspace.module(dotted, source) for dotted in imported_modules(source.text))
            self._direct[source.path] = tuple(module for module in modules if module is not None)
        return self._direct[source.path]
