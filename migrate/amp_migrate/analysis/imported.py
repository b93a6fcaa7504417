"""Which files of the project a file imports, and which belong to its program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project


def imported_files(project: Project, file: File) -> Iterator[File]:
    """The modules that a file imports, or imports something from, each once."""
    modules = (project.library.module(name, file) for name in _imported(file))
    return (module for module in dict.fromkeys(modules) if module is not None)


def imported_names(project: Project, file: File) -> frozenset[str]:
    """The names of these files, none of which is parsed for it."""
    names = (project.library.name_of_module(name, file) for name in _imported(file))
    return frozenset(name for name in names if name is not None)


def _imported(file: File) -> Iterator[str]:
    names: list[str] = []
    for scope in file.scopes.all():
        names += scope.star_imports
    for binding in file.scopes.bindings():
        names += (binding.imported, binding.imported.rpartition(".")[0])
    return (name for name in dict.fromkeys(names) if name.strip("."))


def loaded_by(project: Project, files: Iterable[File]) -> frozenset[File]:
    """Some files, and all that they load: what they import, and what that imports."""
    found = dict.fromkeys(files)
    waiting = list(found)
    while waiting:
        new = [each for each in imported_files(project, waiting.pop()) if each not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return frozenset(found)
