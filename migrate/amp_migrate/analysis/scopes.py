"""Which names a module binds, where, and to what: one pass over the tree, Python's own scoping rules.

Attributes of names (`self.model`, `state.optimizer`) are recorded beside plain names, under their dotted path: in
training code an object's home is as often an attribute of `self` as a variable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, cast

import libcst as cst

from amp_migrate.trees.nodes import children
from amp_migrate.trees.tree import Tree

ScopeNode: TypeAlias = "cst.Module | cst.FunctionDef | cst.ClassDef | cst.Lambda | cst.BaseComp | cst.DictComp"
_SCOPE_TYPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


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


@dataclass(eq=False)
class Scope:
    """The names of one module, class, function, lambda or comprehension."""

    node: cst.CSTNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    elsewhere: dict[str, str] = field(default_factory=dict)  # names declared `global` or `nonlocal`
    star_imports: list[str] = field(default_factory=list)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, cst.ClassDef)

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> Scope | None:
        """The scope that `name` (or a dotted path) belongs to when read here; None for builtins and unknown names."""
        root = name.partition(".")[0]
        declared = self.elsewhere.get(root)
        if declared == "global":
            return self.module if root in self.module.bindings else None
        scope: Scope | None = self.parent if declared else self
        while scope is not None:
            if root in scope.bindings and (scope is self or not scope.is_class):
                return scope
            scope = scope.parent
        return None

    def lookup(self, name: str) -> list[Binding]:
        """All bindings of `name` (or of a dotted path) as seen from here."""
        scope = self.find(name)
        return [] if scope is None else list(scope.bindings.get(name, ()))


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


class Scopes:
    """All scopes of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.module = Scope(tree.module, None)
        self._of_node: dict[cst.CSTNode, Scope] = {tree.module: self.module}
        self._around: dict[cst.CSTNode, Scope] = {}
        _fill(self.module, tree.module, self._of_node)

    def of(self, node: cst.CSTNode) -> Scope:
        """The scope in which a node's names are looked up."""
        if node not in self._around:
            self._around[node] = self._find(node)
        return self._around[node]

    def _find(self, node: cst.CSTNode) -> Scope:
        previous = node
        for ancestor in self.tree.ancestors(node):
            if ancestor in self._of_node and not _evaluated_outside(ancestor, previous):
                return self._of_node[ancestor]
            previous = ancestor
        return self.module

    def all(self) -> tuple[Scope, ...]:
        """Every scope of the file."""
        return tuple(self._of_node.values())

    def free(self, candidates: Iterable[str]) -> str | None:
        """The first name that nothing in the file is called by, in whichever scope."""
        taken = {name for scope in self.all() for name in scope.bindings}
        return next((name for name in candidates if name not in taken), None)

    def inside(self, node: cst.CSTNode) -> Scope:
        """The scope that a function, class or module opens."""
        return self._of_node[node]


def _evaluated_outside(scope_node: cst.CSTNode, child: cst.CSTNode) -> bool:
    """Decorators, defaults, bases and annotations belong to the scope around a definition."""
    if isinstance(scope_node, (cst.FunctionDef, cst.ClassDef)):
        return child is not scope_node.body and not (
            isinstance(scope_node, cst.FunctionDef) and child is scope_node.params
        )
    return False


def _fill(scope: Scope, node: cst.CSTNode, scopes: dict[cst.CSTNode, Scope]) -> None:
    stack = children(node)[::-1]
    while stack:
        current = stack.pop()
        for name, binding in _bindings(current):
            target = scope
            if "." not in name and scope.elsewhere.get(name) == "global":
                target = scope.module
            target.bindings[name].append(binding)
        kind_of_node = type(current)
        if kind_of_node in (cst.Global, cst.Nonlocal):
            assert isinstance(current, (cst.Global, cst.Nonlocal))
            kind = "global" if isinstance(current, cst.Global) else "nonlocal"
            scope.elsewhere.update((item.name.value, kind) for item in current.names)
            if kind == "global" and scope.parent is not None:
                for item in current.names:  # an import may stand above the declaration
                    scope.module.bindings[item.name.value] += scope.bindings.pop(item.name.value, [])
        elif kind_of_node is cst.ImportFrom:
            statement = cast(cst.ImportFrom, current)
            if isinstance(statement.names, cst.ImportStar):
                scope.star_imports.append(import_source(statement))
        if kind_of_node in _SCOPE_TYPES:
            inner = Scope(current, scope)
            scopes[current] = inner
            _fill(inner, current, scopes)
        elif kind_of_node not in (cst.Import, cst.ImportFrom):  # their `as` is bound above
            stack.extend(children(current)[::-1])


def import_source(node: cst.ImportFrom) -> str:
    """The module an `from ... import` names, relative dots kept in front."""
    return "." * len(node.relative) + (dotted(node.module) or "")


def module_and_name(full: str) -> tuple[str, str]:
    """The module and the last name of an imported full name: `.` and `x` for the `.x` of `from . import x`."""
    name = full.rpartition(".")[2]
    module = full[: len(full) - len(name)]
    return (module[:-1] if module.strip(".") else module), name


def _bindings(node: cst.CSTNode) -> Iterator[tuple[str, Binding]]:
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
        name = dotted(alias.name) or ""
        local = name if alias.asname is None else dotted(alias.asname.name) or ""
        separator = "" if origin.endswith(".") else "."
        yield local, Binding(BindingKind.IMPORT, node, imported=origin + separator + name)


def _assign(node: cst.Assign) -> Iterator[tuple[str, Binding]]:
    for target in node.targets:
        yield from _targets(target.target, node, node.value)


def _targets(
    target: cst.BaseExpression, node: cst.CSTNode, value: cst.BaseExpression | None
) -> Iterator[tuple[str, Binding]]:
    path = dotted(target)
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
