"""What other files take from a file."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project


def takers(project: Project, file: File, name: str) -> list[File]:
    """The other files that take a module-level name from `file`: by name, by star, or as `file.name`."""
    found: list[File] = []
    for other in project.library.mentioning(name, *_words_of_importing(file)):
        if other is file:
            continue
        by_name = any(
            binding.imported.rpartition(".")[2] == name and project.module_of(other, binding.imported) is file
            for binding in other.scopes.bindings()
            if binding.kind is BindingKind.IMPORT
        )
        by_star = name in other.uses and any(
            project.library.module(origin, other) is file for origin in other.scopes.module.star_imports
        )
        if by_name or by_star or any(_takes(project, other, use, file) for use in other.uses.get(name, ())):
            found.append(other)
    return found


def _words_of_importing(file: File) -> tuple[str, ...]:
    """The words that every file has which imports one: its own name, but for that of a package (`from . import x`)."""
    word = file.name.rpartition("/")[2].removesuffix(".py")
    return () if word == "__init__" else (word,)


def taken(project: Project, file: File, other: File) -> set[str] | None:
    """The names that a file takes from another by importing each of them; None where it may take anything."""
    is_whole = any(project.library.module(each, file) is other for each in file.imported)
    if is_whole or any(project.library.module(each, file) is other for each in file.scopes.module.star_imports):
        return None
    by_name = (each.rpartition(".") for each in file.imported)
    return {name for module, _, name in by_name if module and project.library.module(module, file) is other}


def _takes(project: Project, other: File, use: cst.CSTNode, file: File) -> bool:
    """Whether an expression of another file is something of the module `file`, as in `compat.autocast`."""
    return isinstance(use, cst.Attribute) and any(
        base.partition(".")[0] not in ("", "torch") and project.library.module(base, other) is file
        for base in other.names.meanings(use.value)
    )


def is_exported(project: Project, file: File, name: str) -> bool:
    """Whether the file's `__all__`, or another file of the project, takes a module-level name from it."""
    listed = file.scopes.module.bindings.get("__all__", [])
    code = "".join(file.tree.code(each.node) for each in listed)
    return f'"{name}"' in code or f"'{name}'" in code or bool(takers(project, file, name))
