"""Imports of what Apex deleted, answered by `amp_shim`: the script runs as it did, on today's PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.scopes import dotted, import_source
from amp_migrate.steps.draft import Draft
from amp_migrate.tables.apex_names import DELETED, SERVED

SHIM = "amp_shim"


def apex_uses(file: File, prefix: str) -> Iterator[cst.Attribute]:
    """The chains of a file that stand for a package of Apex (`apex.parallel`), through `import apex`."""
    for node in file.uses.get(prefix.rpartition(".")[2], ()):
        if isinstance(node, cst.Attribute) and prefix in file.names.meanings(node):
            yield node


def imports_of(file: File, packages: tuple[str, ...]) -> Iterator[cst.Import | cst.ImportFrom]:
    """The statements of a file that import one of some packages of Apex, or something in it."""
    for node in file.tree.order:
        if isinstance(node, cst.Import):
            names = [dotted(alias.name) or "" for alias in node.names]
            through_apex = "apex" in names and any(True for package in packages for _ in apex_uses(file, package))
            if through_apex or any(_is_in(name, packages) for name in names):
                yield node
        elif isinstance(node, cst.ImportFrom) and not node.relative:
            origin = import_source(node)
            items = [] if isinstance(node.names, cst.ImportStar) else [dotted(a.name) for a in node.names]
            if _is_in(origin, packages) or (origin == "apex" and any(f"apex.{item}" in packages for item in items)):
                yield node


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def write_shim_import(draft: Draft, node: cst.Import | cst.ImportFrom) -> None:
    """Let one import statement take from the shim what it took from Apex."""
    if isinstance(node, cst.Import) and _uses_living_apex(draft.file):
        _redirect_chains(draft, node)
        return
    if isinstance(node, cst.ImportFrom):
        assert node.module is not None
        draft.edits.replace(node.module, _in_shim(node.module))
        return
    for alias in node.names:
        name = dotted(alias.name) or ""
        if name == "apex":
            local = alias.asname or cst.AsName(cst.Name("apex"))
            draft.edits.replace(alias, alias.with_changes(name=cst.Name(SHIM), asname=local))
        elif name.startswith("apex.") and alias.asname is not None:
            draft.edits.replace(alias.name, _in_shim(alias.name))
        elif name.startswith("apex."):  # `import apex.amp` binds `apex`
            new = alias.with_changes(name=cst.Name(SHIM), asname=cst.AsName(cst.Name("apex")))
            draft.edits.replace(alias, new)


def _uses_living_apex(file: File) -> bool:
    """Whether a file reaches through `import apex` for a package that Apex still has."""
    for node in file.tree.order:
        is_package = isinstance(node, cst.Attribute) and "apex" in file.names.meanings(node.value)
        if is_package and isinstance(node, cst.Attribute) and f"apex.{node.attr.value}" not in DELETED:
            return True
    return False


def _redirect_chains(draft: Draft, node: cst.Import) -> None:
    """`import apex` stays, and only the chains to deleted packages go to the shim."""
    for package in SERVED:
        for chain in apex_uses(draft.file, package):
            draft.edits.replace(chain.value, cst.Name(SHIM))
    draft.edits.after(node, draft.line(f"import {SHIM}"))


def _in_shim(name: cst.Attribute | cst.Name) -> cst.Attribute | cst.Name:
    """`apex.parallel` as `amp_shim.parallel`."""
    if isinstance(name, cst.Name):
        return cst.Name(SHIM)
    assert isinstance(name.value, (cst.Attribute, cst.Name))
    return name.with_changes(value=_in_shim(name.value))
