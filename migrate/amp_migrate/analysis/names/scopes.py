"""Which names a module binds, and where: one pass over the tree, Python's own scoping rules.

Attributes of names (`self.model`, `state.optimizer`), and items under keys that are written out (`nets["d"]`), are
recorded beside plain names, under their path: in training code an object's home is as often one of these as a variable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import Binding, bindings_of, import_source
from amp_migrate.trees.nodes import children
from amp_migrate.trees.tree import Tree

_SCOPE_TYPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


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
        """The scope that `name` (or a path from it) belongs to when read here; None for builtins and unknown names."""
        root = name.partition(".")[0].partition("[")[0]
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
        """All bindings of `name` (or of a path from it) as seen from here."""
        scope = self.find(name)
        return [] if scope is None else list(scope.bindings.get(name, ()))


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

    def bindings(self) -> Iterator[Binding]:
        """Every binding of the file, in whichever scope."""
        return (each for scope in self.all() for found in scope.bindings.values() for each in found)

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
        for name, binding in bindings_of(current):
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
