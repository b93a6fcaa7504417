"""Which files of the project a file imports, and which belong to its program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project


def imported_files(project: Project, file: File) -> Iterator[File]:
    """The modules that a file imports, or imports something from, each once."""
    names: list[str] = []
    for scope in file.scopes.all():
        names += scope.star_imports
        for bindings in scope.bindings.values():
            for binding in bindings:
                names += (binding.imported, binding.imported.rpartition(".")[0])
    modules = (project.library.module(name, file) for name in dict.fromkeys(names) if name.strip("."))
    return (module for module in dict.fromkeys(modules) if module is not None)


def loaded_by(project: Project, files: Iterable[File]) -> frozenset[File]:
    """Some files, and all that they load: what they import, and what that imports."""
    found = dict.fromkeys(files)
    waiting = list(found)
    while waiting:
        new = [each for each in imported_files(project, waiting.pop()) if each not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return frozenset(found)
