"""A tree of files as the projects that it holds: those of one project may use one another, others cannot.

A repository of fifty models has fifty functions called `train`. Looking for the callers of each in all of them would
take minutes, and find what only has the same name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

from amp_migrate.analysis.components import Components
from amp_migrate.engine import modules
from amp_migrate.engine.changed_path import ChangedPath, root_of
from amp_migrate.engine.imports import imported_modules

# What loads files that no import statement names: it may load any below its own folder.
_DYNAMIC = (
    *("import_module", "__import__", "spec_from_file_location"),
    *("iter_modules", "walk_packages", "run_path", "instantiate"),
)
# Imports of Apex go, so they must not decide: a second run would find other projects in Apex's own repository.
_LEFT_BEHIND = "apex"


class Projects:
    """The projects of a tree, found out when they are first asked for.

    Files of one folder belong together, and so do a file and what it imports.

    Args:
        files: the real paths of all files.
        roots: real paths of folders that may stand on `sys.path`.
        read: gives the text of a file, and nothing of one that cannot be read.
    """

    def __init__(self, files: Sequence[str], roots: Sequence[str], read: Callable[[str], str]) -> None:
        self._files = files
        self._roots = roots
        self._read = read
        self.changed_path = ChangedPath(files, read)

    def of(self, file: str) -> frozenset[str]:
        """The files of the project that a file belongs to."""
        return self._by_file[file]

    @cached_property
    def _by_file(self) -> dict[str, frozenset[str]]:
        found = Components(self._files)
        by_folder: dict[str, str] = {}
        for file in self._files:
            found.link(by_folder.setdefault(os.path.dirname(file), file), file)
        imports = _Imports(self._files, self._roots, self.changed_path)
        for file in self._files:
            text = self._read(file)
            for target in imports.of(file, text):
                found.link(file, target)
            if any(word in text for word in _DYNAMIC):
                for folder in _below(os.path.dirname(file), by_folder):
                    found.link(file, by_folder[folder])
        projects = map(frozenset, found.all())
        return {file: project for project in projects for file in project}


class _Imports:
    """Which of some files the imports of a text may load."""

    def __init__(self, files: Collection[str], roots: Sequence[str], changed_path: ChangedPath) -> None:
        self._files = frozenset(files)
        self._roots = roots
        self._changed_path = changed_path
        # An import can only succeed if its first name is that of a file or a folder: most are of other packages.
        self._names = {os.path.splitext(part)[0] for file in files for part in file.split(os.sep)}
        self._resolved: dict[tuple[str, str], str | None] = {}

    def of(self, importer: str, text: str) -> set[str]:
        """The files that a file with this text may load."""
        found: set[str] = set()
        folder = os.path.dirname(importer)
        for dotted in imported_modules(text):
            root = dotted.partition(".")[0]
            if root and (root not in self._names or root == _LEFT_BEHIND):
                continue
            key = folder, dotted
            if key not in self._resolved:
                self._resolved[key] = modules.resolve(dotted, importer, self._files, self._roots)
            target = self._resolved[key]
            if target is not None:
                found.add(target)
            else:
                found.update(self._elsewhere(dotted, importer, text))
        return found

    def _elsewhere(self, dotted: str, importer: str, text: str) -> list[str]:
        """The files that an import may mean for a script which is run from a folder further up.

        Where it changes where Python looks for modules, any folder beside its own may be meant.
        """
        named, folder = self._changed_path.named(dotted), os.path.dirname(importer)
        if named and self._changed_path.is_changed_by(importer, text):
            return [file for file in named if file.startswith(os.path.dirname(folder) + os.sep)]
        return [file for file in named if folder.startswith(root_of(file, dotted) + os.sep)]


def _below(folder: str, folders: Iterable[str]) -> list[str]:
    """A folder and those below it."""
    return [each for each in folders if each == folder or each.startswith(folder.rstrip(os.sep) + os.sep)]
