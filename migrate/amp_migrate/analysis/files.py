"""One file of the project with everything known about it by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import Binding, BindingKind, dotted, item_path
from amp_migrate.analysis.names.elsewhere import Elsewhere
from amp_migrate.analysis.names.file_names import Names
from amp_migrate.analysis.names.scopes import Scopes
from amp_migrate.analysis.names.spelling import Spelling
from amp_migrate.tables.signatures import OLDEST, Version
from amp_migrate.trees.nodes import find, is_kind, subscript_key, walk, written_string
from amp_migrate.trees.tree import Tree


class File:
    """A parsed file: its tree, scopes and names.

    Attributes:
        name: the file as the user named it.
        tree: the tree with parents.
        scopes: who binds what.
        names: what names stand for.
    """

    def __init__(
        self,
        name: str,
        module: cst.Module,
        text: str | None = None,
        target_torch: Version = OLDEST,
        refused: str = "",
    ) -> None:
        self.name = name
        self.tree = Tree(name, module, text, refused)
        self.scopes = Scopes(self.tree)
        self.names = Names(self.tree, self.scopes, target_torch)

    def read_among(self, elsewhere: Elsewhere) -> None:
        """Read the names anew, in the light of what other files of a project hand on."""
        self.names = Names(self.tree, self.scopes, self.names.target_torch, elsewhere)

    def read_alone(self) -> None:
        """Read the names anew when they are asked for, without what other files hand on: those are held no longer."""
        self.names = Names(self.tree, self.scopes, self.names.target_torch)

    def read_given(self, parameter: cst.Param, full: str) -> None:
        """Read the names anew, in the light of what all callers pass for a parameter."""
        self.names = self.names.with_given(parameter, full)

    @property
    def spelling(self) -> Spelling:
        """How full names are written in it."""
        return Spelling(self.names)

    @cached_property
    def calls(self) -> tuple[cst.Call, ...]:
        """Every call in the file."""
        return tuple(self.tree.every(cst.Call))

    @cached_property
    def uses(self) -> dict[str, list[cst.Name | cst.Attribute]]:
        """For each identifier, where it is used: as a name, or as an attribute (`x.f` for `f`); imports left out."""
        found: dict[str, list[cst.Name | cst.Attribute]] = defaultdict(list)
        imports = {each for statement in self.tree.every(cst.Import, cst.ImportFrom) for each in walk(statement)}
        for node in self.tree.order:
            kind = type(node)
            if node in imports:
                continue
            if kind is cst.Attribute:
                attribute = cast(cst.Attribute, node)
                found[attribute.attr.value].append(attribute)
            elif kind is cst.Name and not self._is_label(name := cast(cst.Name, node)):
                found[name.value].append(name)
        return found

    def _is_label(self, node: cst.Name) -> bool:
        """Whether a name only labels something: an attribute, a keyword, a definition."""
        parent = self.tree.parents[node]
        if type(parent) is cst.Attribute:
            return parent.attr is node
        if type(parent) is cst.Arg:
            return parent.keyword is node
        if is_kind(type(parent), (cst.FunctionDef, cst.ClassDef, cst.Param)):
            return cast("cst.FunctionDef | cst.ClassDef | cst.Param", parent).name is node
        return type(parent) is cst.AsName

    @cached_property
    def imported(self) -> frozenset[str]:
        """The full names of all that the file imports, in whatever scope."""
        return frozenset(binding.imported for binding in self.scopes.bindings()) - {""}

    def local_names(self, name: str) -> list[str]:
        """What something called `name` elsewhere may be called here: that, or what imports and lines rename it to."""
        return sorted({name, *self._renamed.get(name, ())})

    @cached_property
    def _renamed(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for scope in self.scopes.all():
            for local, bindings in scope.bindings.items():
                for each in bindings:
                    if each.kind is BindingKind.IMPORT:
                        found[each.imported.rpartition(".")[2]].add(local)
        for statement, first in self.second_names.items():
            found[first.value].update(dotted(each.target) or "" for each in cast(cst.Assign, statement).targets)
        return found

    @cached_property
    def second_names(self) -> dict[cst.CSTNode, cst.Name]:
        """The statements that give a name of a function's own its only value, which another name gives."""
        found: dict[cst.CSTNode, cst.Name] = {}
        scopes = self.scopes.all()
        declared = {name for scope in scopes for name in scope.elsewhere}  # what others may give a value
        for scope in (each for each in scopes if isinstance(each.node, cst.FunctionDef)):
            own = (bound[0].node for name, bound in scope.bindings.items() if len(bound) == 1 and name not in declared)
            for node in (each for each in own if isinstance(each, cst.Assign) and isinstance(each.value, cst.Name)):
                is_plain = len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
                if is_plain and isinstance(node.value, cst.Name) and node.value.value not in scope.bindings:
                    found[node] = node.value
        return found

    @cached_property
    def methods(self) -> dict[str, list[cst.FunctionDef]]:
        """The methods that the classes of the file define, by name."""
        found: dict[str, list[cst.FunctionDef]] = defaultdict(list)
        for node in self.tree.every(cst.ClassDef):
            for method in find(node.body, cst.FunctionDef):
                found[method.name.value].append(method)
        return found

    @cached_property
    def methods_called(self) -> dict[str, set[str]]:
        """For each object, by its path as written (`self.model`, `nets[]`), the names of the methods called on it."""
        found: dict[str, set[str]] = defaultdict(set)
        for call in self.calls:
            if isinstance(call.func, cst.Attribute):
                path = object_path(call.func.value)
                if path is not None:
                    found[path].add(call.func.attr.value)
        return found

    def called_on(self, node: cst.BaseExpression) -> set[str]:
        """The names of the methods called on an object; of an item that its key tells from others, not on those."""
        path = object_path(node) or ""
        if not isinstance(node, cst.Subscript) or not object_bindings(self, node):
            return self.methods_called.get(path, set())
        others = self._methods_of_items
        return others.get(item_path(node) or "", set()) | others.get(path, set())

    @cached_property
    def _methods_of_items(self) -> dict[str, set[str]]:
        """For each item, by its key where that is written out, the names of the methods called on it."""
        found: dict[str, set[str]] = defaultdict(set)
        for call in self.calls:
            if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Subscript):
                path = item_path(call.func.value) or object_path(call.func.value)
                if path is not None:
                    found[path].add(call.func.attr.value)
        return found

    def class_attribute(self, owner: cst.ClassDef, path: str) -> tuple[cst.CSTNode, ...]:
        """The statements in the methods of a class that assign an attribute such as `self.optimizer`."""
        return tuple(binding.node for binding in self.attribute_bindings(owner, path))

    def attribute_bindings(self, owner: cst.ClassDef, path: str) -> Iterator[Binding]:
        """Where the methods of a class give an attribute such as `self.optimizer` its values."""
        for method in find(owner.body, cst.FunctionDef):
            yield from self.scopes.inside(method).bindings.get(path, ())


def object_path(node: cst.CSTNode) -> str | None:
    """A path for an object, subscripts folded: `self.nets["d"]` is `self.nets[]`; None for other expressions."""
    if type(node) is cst.Subscript:
        base = object_path(node.value)
        return None if base is None else f"{base}[]"
    if type(node) is cst.Attribute:
        base = object_path(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return dotted(node)


def object_bindings(file: File, node: cst.CSTNode) -> list[Binding]:
    """Where an object gets its value: the name's bindings, or for `self.x` those in all methods of the class.

    For an item under a key that is written out, `nets["d"]`, those of that key, and what a dictionary that is written
    out has under it.
    """
    key = written_string(subscript_key(node)) if isinstance(node, cst.Subscript) else None
    if key is not None and isinstance(node, cst.Subscript):
        return item_bindings(file, node.value, key)
    path = item_path(node)
    return [] if path is None else _bindings_of_path(file, node, path)


def item_bindings(file: File, held: cst.BaseExpression, key: str) -> list[Binding]:
    """Where an object gets what it has under a key: by an assignment, or in a dictionary that is written out."""
    path = item_path(held)
    found = [] if path is None else _bindings_of_path(file, held, f"{path}[{key!r}]")
    for binding in () if path is None else object_bindings(file, held):
        value = _item(binding.value, key)
        found += [] if value is None else [Binding(binding.kind, binding.node, value)]
    return found


def _bindings_of_path(file: File, at: cst.CSTNode, path: str) -> list[Binding]:
    found = file.scopes.of(at).lookup(path)
    owner = file.tree.owner_class(at) if path.startswith("self.") else None
    if owner is not None:
        found.extend(each for each in file.attribute_bindings(owner, path) if each not in found)
    return found


def _item(value: cst.BaseExpression | None, key: str) -> cst.BaseExpression | None:
    """What a dictionary that is written out has under a key."""
    items = value.elements if isinstance(value, cst.Dict) else ()
    own = (each for each in items if isinstance(each, cst.DictElement) and written_string(each.key) == key)
    return next((each.value for each in own), None)
