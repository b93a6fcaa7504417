"""Which names of a project's files other files take, and where something comes from: one step, in either direction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind
from amp_migrate.analysis.exports import takers
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.scopes import Scope
from amp_migrate.analysis.project import Project
from amp_migrate.renames.find.surroundings import is_imported
from amp_migrate.renames.old_modules import OLD_MODULES
from amp_migrate.renames.rename import all_renames

# A name at the top level of a file, where other files can take it from.
Top: TypeAlias = "tuple[File, str]"


def is_old(meanings: Collection[str]) -> bool:
    """Whether one of the things that a name may stand for is deprecated."""
    return any(full in OLD_MODULES or full in all_renames() for full in meanings)


def sources(project: Project, file: File, node: cst.CSTNode) -> Iterator[Top]:
    """The names of other files that an expression, or what its chain of names begins with, is taken from."""
    current: cst.CSTNode | None = node
    while isinstance(current, (cst.Name, cst.Attribute)):
        if is_old(file.names.meanings(current)):
            yield from _sources_of(project, file, current)
        current = current.value if isinstance(current, cst.Attribute) else None


def sources_at(project: Project, file: File, name: str) -> Iterator[Top]:
    """The names of other files that a name at the top level of a file is taken from."""
    yield from _of_bindings(project, file, file.scopes.module, name)


def _sources_of(project: Project, file: File, node: cst.Name | cst.Attribute) -> Iterator[Top]:
    if isinstance(node, cst.Name):
        yield from _of_bindings(project, file, file.scopes.of(node), node.value)
        return
    for base in sorted(file.names.meanings(node.value)):
        if base.partition(".")[0] not in ("", "torch"):
            module = project.library.module(base, file)
            if module is not None:
                yield module, node.attr.value


def _of_bindings(project: Project, file: File, scope: Scope, name: str) -> Iterator[Top]:
    bindings = scope.lookup(name)
    for binding in bindings:
        top = taken_by(project, file, binding)
        if top is not None:
            yield top
    if not bindings:
        for origin in file.scopes.module.star_imports:
            module = project.library.module(origin, file)
            if module is not None and is_old(module.names.exported(name, has_torch=True)):
                yield module, name


def taken_by(project: Project, file: File, binding: Binding) -> Top | None:
    """The name of another file that an import brings."""
    if binding.kind is not BindingKind.IMPORT or not binding.imported or binding.imported.startswith("torch."):
        return None
    module = project.module_of(file, binding.imported)
    return None if module is None else (module, binding.imported.rpartition(".")[2])


def users(project: Project, file: File, name: str) -> Iterator[Top]:
    """The names at the top level of other files that are taken from a name of this one."""
    for other in takers(project, file, name):
        scope = other.scopes.module
        for local, bindings in scope.bindings.items():
            if any(taken_by(project, other, binding) == (file, name) for binding in bindings):
                yield other, local
        if name not in scope.bindings and (file, name) in _of_bindings(project, other, scope, name):
            yield other, name


def uses_at(project: Project, file: File, name: str) -> Iterator[tuple[File, cst.CSTNode]]:
    """Where a name at the top level of a file is used, here and in other files; for a module, the whole chains."""
    for node in _named(file, (name,)):
        if isinstance(node, cst.Name) and file.scopes.of(node).find(name) in (file.scopes.module, None):
            yield file, _whole_chain(file, node)
    for other in takers(project, file, name):
        for node in _named(other, {name, *_locals(project, other, (file, name))}):
            if (file, name) in _sources_of(project, other, node):
                yield other, _whole_chain(other, node)


def _locals(project: Project, file: File, top: Top) -> Iterator[str]:
    for scope in file.scopes.all():
        for local, bindings in scope.bindings.items():
            if any(taken_by(project, file, binding) == top for binding in bindings):
                yield local


def _named(file: File, names: Iterable[str]) -> Iterator[cst.Name | cst.Attribute]:
    for name in sorted(names):
        for node in file.uses.get(name, ()):
            is_definition = isinstance(node, cst.Name) and file.tree.is_target(node)
            if not is_imported(file.tree, node) and not is_definition:
                yield node


def _whole_chain(file: File, node: cst.CSTNode) -> cst.CSTNode:
    """A use with what is taken from it where it stands: `amp.autocast` for `amp`."""
    parent = file.tree.parents[node]
    while isinstance(parent, cst.Attribute) and any(each in OLD_MODULES for each in file.names.meanings(node)):
        node, parent = parent, file.tree.parents[parent]
    return node
