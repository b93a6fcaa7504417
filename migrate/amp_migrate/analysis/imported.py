"""Which files of the project a file imports."""

from __future__ import annotations

from collections.abc import Iterator

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
