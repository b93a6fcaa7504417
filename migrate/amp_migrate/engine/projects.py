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
from amp_migrate.engine.imports import imported_modules

# What loads files that no import statement names: it may load any below its own folder.
_DYNAMIC = (
    *("import_module", "__import__", "spec_from_file_location"),
    *("iter_modules", "walk_packages", "run_path", "instantiate"),
)
_PATH = "sys.path"
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

    def of(self, file: str) -> frozenset[str]:
        """The files of the project that a file belongs to."""
        return self._by_file[file]

    @cached_property
    def _by_file(self) -> dict[str, frozenset[str]]:
        found = Components(self._files)
        by_folder: dict[str, str] = {}
        for file in self._files:
            found.link(by_folder.setdefault(os.path.dirname(file), file), file)
        imports = _Imports(self._files, self._roots)
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

    def __init__(self, files: Collection[str], roots: Sequence[str]) -> None:
        self._files = frozenset(files)
        self._roots = roots
        # An import can only succeed if its first name is that of a file or a folder: most are of other packages.
        self._names = {os.path.splitext(part)[0] for file in files for part in file.split(os.sep)}
        self._by_stem: dict[str, list[str]] = {}
        for file in files:
            self._by_stem.setdefault(_stem(file), []).append(file)
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
                found.update(self._elsewhere(dotted, folder, _PATH in text))
        return found

    def _elsewhere(self, dotted: str, folder: str, anywhere: bool) -> list[str]:
        """The files that an import may mean for a script in `folder` which is run from a folder further up.

        Args:
            anywhere: the script changes where Python looks for modules: any folder beside its own may be meant.
        """
        path = dotted.replace(".", os.sep)
        ends = (f"{os.sep}{path}.py", os.path.join(f"{os.sep}{path}", "__init__.py"))
        of_that_name = [file for file in self._by_stem.get(path.rpartition(os.sep)[2], ()) if file.endswith(ends)]
        if anywhere:
            return [file for file in of_that_name if file.startswith(os.path.dirname(folder) + os.sep)]
        return [file for file in of_that_name if folder.startswith(_before(file, path) + os.sep)]


def _stem(file: str) -> str:
    """The name by which a file is imported: a package's is that of its folder."""
    folder, name = os.path.split(file)
    stem = os.path.splitext(name)[0]
    return os.path.basename(folder) if stem == "__init__" else stem


def _before(file: str, path: str) -> str:
    """The folder from which an import of `path` finds a file."""
    return file[: file.rindex(f"{os.sep}{path}")]


def _below(folder: str, folders: Iterable[str]) -> list[str]:
    """A folder and those below it."""
    return [each for each in folders if each == folder or each.startswith(folder.rstrip(os.sep) + os.sep)]
