"""Which expressions of a file are gradient scalers."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File, object_path
from amp_migrate.analysis.scopes import Binding, BindingKind, dotted
from amp_migrate.steps.native import GRAD_SCALER
from amp_migrate.trees.tree import find

_MAX_ALIASES = 4


class Scalers:
    """The scalers of one file, each known by the path that it is written as."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._known: dict[cst.CSTNode, str | None] = {}

    def path(self, node: cst.CSTNode) -> str | None:
        """The path of the scaler that an expression is, aliases resolved; None for everything else."""
        if node not in self._known:
            self._known[node] = self._path(node, _MAX_ALIASES)
        return self._known[node]

    def creations(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls of GradScaler that an expression's value may come from."""
        return [call for each in self._bindings(node) if each.value is not None for call in self._made(each.value)]

    def _path(self, node: cst.CSTNode, aliases: int) -> str | None:
        path = dotted(node)
        if path is None:
            return None
        bindings = self._bindings(node)
        values = [each.value for each in bindings if each.value is not None]
        if any(self._made(value) for value in values):
            return path
        others = [value for value in values if not (isinstance(value, cst.Name) and value.value == "None")]
        if len(others) == 1 and len(bindings) == len(values) and isinstance(others[0], (cst.Name, cst.Attribute)):
            return self._path(others[0], aliases - 1) if aliases else None
        if others or any(each.kind in (BindingKind.FUNCTION, BindingKind.CLASS) for each in bindings):
            return None
        return path if self._acts_like_one(path) else None

    def _made(self, value: cst.BaseExpression) -> list[cst.Call]:
        return [call for call in find(value, cst.Call) if self._file.names.callee(call) in GRAD_SCALER]

    def _acts_like_one(self, path: str) -> bool:
        """Whether something from elsewhere is called like a scaler and used like one (as no sklearn scaler is)."""
        called = self._file.methods_called.get(path, set())
        return "scaler" in path.rpartition(".")[2].lower() and not called.isdisjoint({"scale", "unscale_"})

    def _bindings(self, node: cst.CSTNode) -> list[Binding]:
        """Where a path gets its value: for `self.x`, in all methods of the class."""
        path = object_path(node)
        if path is None:
            return []
        found = self._file.scopes.of(node).lookup(path)
        owner = self._file.tree.owner_class(node)
        if path.startswith("self.") and owner is not None:
            for method in find(owner.body, cst.FunctionDef):
                found.extend(b for b in self._file.scopes.inside(method).bindings.get(path, ()) if b not in found)
        return found
