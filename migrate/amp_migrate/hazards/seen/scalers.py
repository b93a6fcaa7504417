"""Which expressions of a file are gradient scalers."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.statements.amp_signs import GRAD_SCALER
from amp_migrate.trees.nodes import find, is_constant, last_word

_MAX_ALIASES = 4
_WORK = frozenset({"scale", "unscale_", "step", "update"})


class Scalers:
    """The scalers of one file, each known by the path that it is written as.

    Attributes:
        works: the calls that scale, unscale, step or update, in source order.
        paths: the paths of all scalers.
    """

    def __init__(self, file: File, roles: Roles) -> None:
        self._file = file
        self._roles = roles
        self._known: dict[cst.CSTNode, str | None] = {}
        # What is never asked to do a scaler's work need not be looked at anywhere.
        calls = [call for call in file.calls if isinstance(call.func, cst.Attribute)]
        works = [call for call in calls if _method(call) in _WORK]
        self._words = frozenset(last_word(_owner(call)) for call in works)
        self.works = tuple(call for call in works if self.path(_owner(call)) is not None)
        self.paths = frozenset(path for call in self.works if (path := self.path(_owner(call))) is not None)

    def path(self, node: cst.CSTNode) -> str | None:
        """The path of the scaler that an expression is, aliases resolved; None for everything else."""
        if last_word(node) not in self._words:
            return None
        if node not in self._known:
            self._known[node] = self._path(node, _MAX_ALIASES)
        return self._known[node]

    def _path(self, node: cst.CSTNode, aliases: int) -> str | None:
        path = dotted(node)
        if path is None:
            return None
        bindings = self._roles.bindings(self._file, node)
        values = [each.value for each in bindings if each.value is not None]
        if any(self._made(value) for value in values):
            return path
        others = [value for value in values if not is_constant(value, "None")]
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


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _owner(call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    return call.func.value
