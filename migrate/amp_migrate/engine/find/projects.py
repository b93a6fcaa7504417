"""A tree of files as the projects that it holds: those of one project may use one another, others cannot.

A repository of fifty models has fifty functions called `train`. Looking for the callers of each in all of them would
take minutes, and find what only has the same name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from amp_migrate.analysis.components import Components
from amp_migrate.engine.imports.tree_imports import TreeImports, root_of


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

    def elsewhere(self, dotted: str, importer: str) -> str | None:
        """The one file that an import may mean which none of the usual folders has, for a file of the tree.

        It is further up, or anywhere beside the file if that changes where Python looks for modules. Among several it
        is the one in a folder that stands beside the importer's, or beside one above: `../lib` and not `../far/away`.
        """
        found = self._imports.elsewhere(dotted, importer)
        if len(found) > 1:
            folder = os.path.dirname(importer)
            found = [file for file in found if _below(os.path.dirname(root_of(file, dotted)), [folder])]
        return found[0] if len(found) == 1 else None

    def may_run_together(self, one: str, other: str) -> bool:
        """Whether two files of the tree may be of one script: one folder has both, or some file loads both."""
        return os.path.dirname(one) == os.path.dirname(other) or self._imports.have_one_user(one, other)

    @cached_property
    def _imports(self) -> TreeImports:
        return TreeImports(self._files, self._roots, self._read)

    @cached_property
    def _by_file(self) -> dict[str, frozenset[str]]:
        found = Components(self._files)
        by_folder: dict[str, str] = {}
        for file in self._files:
            found.link(by_folder.setdefault(os.path.dirname(file), file), file)
        for file, text in self._imports.texts.items():
            for target in self._imports.of(file):
                found.link(file, target)
            if text.is_dynamic:
                for folder in _below(os.path.dirname(file), by_folder):
                    found.link(file, by_folder[folder])
        projects = map(frozenset, found.all())
        return {file: project for project in projects for file in project}


def _below(folder: str, folders: Iterable[str]) -> list[str]:
    """A folder and those below it."""
    return [each for each in folders if each == folder or each.startswith(folder.rstrip(os.sep) + os.sep)]
