"""How names get their values: the binding or bindings of one node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import libcst as cst

from amp_migrate.trees.nodes import subscript_key, written_string


class BindingKind(Enum):
    """How a name comes to stand for something."""

    IMPORT = "import"
    PARAMETER = "parameter"
    ASSIGNMENT = "assignment"
    FUNCTION = "function"
    CLASS = "class"
    OTHER = "other"  # loop targets, with-as, except-as, walrus, del, augmented assignment


@dataclass(frozen=True, eq=False)
class Binding:
    """One place where a name gets a value.

    Attributes:
        kind: how it is bound.
        node: the statement's node (or the `Param`) that binds it.
        value: the expression it is bound to, where that is known exactly.
        source: for a value unpacked from a longer one (`a, b = f()`), the expression that is unpacked.
        imported: for an import, the full dotted name.
    """

    kind: BindingKind
    node: cst.CSTNode
    value: cst.BaseExpression | None = None
    source: cst.BaseExpression | None = None
    imported: str = ""


def dotted(node: cst.CSTNode | None) -> str | None:
    """`a.b.c` for a name or a chain of attributes on a name; None for anything else."""
    parts: list[str] = []
    # Asked of half of all nodes: `isinstance` is slow with LibCST's abstract classes where the answer is no.
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def item_path(node: cst.CSTNode | None) -> str | None:
    """Like `dotted`, through keys that are written out: `self.nets['d']`, however that is quoted."""
    key = written_string(subscript_key(node)) if type(node) is cst.Subscript else None
    if type(node) is cst.Attribute:
        base = item_path(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    if key is not None and type(node) is cst.Subscript:
        base = item_path(node.value)
        return None if base is None else f"{base}[{key!r}]"
    return dotted(node)


def import_source(node: cst.ImportFrom) -> str:
    """The module an `from ... import` names, relative dots kept in front."""
    return "." * len(node.relative) + (dotted(node.module) or "")


def packages_of(node: cst.CSTNode) -> set[str]:
    """The packages that an import names, without what is in them; none of any other node."""
    if isinstance(node, cst.Import):
        return {(dotted(alias.name) or "").partition(".")[0] for alias in node.names}
    return {import_source(node).partition(".")[0]} if isinstance(node, cst.ImportFrom) else set()


def module_and_name(full: str) -> tuple[str, str]:
    """The module and the last name of an imported full name: `.` and `x` for the `.x` of `from . import x`."""
    name = full.rpartition(".")[2]
    module = full[: len(full) - len(name)]
    return (module[:-1] if module.strip(".") else module), name


def bindings_of(node: cst.CSTNode) -> Iterator[tuple[str, Binding]]:
    """The names that one node binds by itself."""
    # A table by exact type: an `isinstance` chain over LibCST's abstract classes would be most of the pass.
    binder = _BINDERS.get(type(node))
    return iter(()) if binder is None else binder(node)


def _import(node: cst.Import) -> Iterator[tuple[str, Binding]]:
    for alias in node.names:
        full = dotted(alias.name) or ""
        if alias.asname is not None:
            yield dotted(alias.asname.name) or "", Binding(BindingKind.IMPORT, node, imported=full)
        else:
            root = full.partition(".")[0]
            yield root, Binding(BindingKind.IMPORT, node, imported=root)


def _import_from(node: cst.ImportFrom) -> Iterator[tuple[str, Binding]]:
    if isinstance(node.names, cst.ImportStar):
        return
    origin = import_source(node)
    for alias in node.names:
        separator = "" if origin.endswith(".") else "."
        full = f"{origin}{separator}{dotted(alias.name) or ''}"
        yield local_name(alias), Binding(BindingKind.IMPORT, node, imported=full)


def local_name(alias: cst.ImportAlias) -> str:
    """The name that an imported item has in the file: its own, if it is given no other."""
    return dotted(alias.name if alias.asname is None else alias.asname.name) or ""


def _assign(node: cst.Assign) -> Iterator[tuple[str, Binding]]:
    for target in node.targets:
        yield from _targets(target.target, node, node.value)


def _targets(
    target: cst.BaseExpression, node: cst.CSTNode, value: cst.BaseExpression | None
) -> Iterator[tuple[str, Binding]]:
    path = item_path(target)
    kind = BindingKind.OTHER if value is None else BindingKind.ASSIGNMENT
    if path is not None:
        yield path, Binding(kind, node, value=value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        elements = [element.value for element in target.elements]
        values: list[cst.BaseExpression] | None = None
        if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(elements):
            values = [element.value for element in value.elements]
        for index, element in enumerate(elements):
            if values is not None:
                yield from _targets(element, node, values[index])
            else:
                for name, _ in _targets(element, node, None):
                    yield name, Binding(kind, node, source=value)


_BINDERS: dict[type, Callable[[Any], Iterator[tuple[str, Binding]]]] = {
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.Assign: _assign,
    cst.AnnAssign: lambda node: _targets(node.target, node, node.value),
    cst.NamedExpr: lambda node: _targets(node.target, node, node.value),
    cst.AugAssign: lambda node: _targets(node.target, node, None),
    cst.For: lambda node: _targets(node.target, node, None),
    cst.CompFor: lambda node: _targets(node.target, node, None),
    cst.AsName: lambda node: _targets(node.name, node, None),
    cst.Param: lambda node: iter([(node.name.value, Binding(BindingKind.PARAMETER, node))]),
    cst.FunctionDef: lambda node: iter([(node.name.value, Binding(BindingKind.FUNCTION, node))]),
    cst.ClassDef: lambda node: iter([(node.name.value, Binding(BindingKind.CLASS, node))]),
}
