"""Code that takes gradients by itself, with `torch.autograd.grad`: a gradient penalty, most often.

Such gradients are those of an unscaled loss, whatever the scaler does to the others.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.trees.nodes import find

_GRAD = "torch.autograd.grad"
_WORD = "autograd"
# How many functions may stand between a step and the call.
_DEPTH = 3


class OwnGradients:
    """Answers which calls of a project come to `torch.autograd.grad`."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def taken_by(self, file: File, call: cst.Call) -> bool:
        """Whether a call takes gradients by itself, or through a function of the project."""
        return self._taken(file, call, 0)

    def method(self, file: File, call: cst.Call) -> FunctionRef | None:
        """The only method of the project that a call on an unknown object may mean."""
        return self._project.only_method(file, call, _WORD)

    def _taken(self, file: File, call: cst.Call, depth: int) -> bool:
        if file.names.callee(call) == _GRAD:
            return True
        if depth == _DEPTH or _last_name(file, call) not in self._takers:
            return False
        return any(
            self._taken(function.file, inner, depth + 1)
            for function in self._project.may_call(file, call, _WORD)
            for inner in find(function.node.body, cst.Call)
        )

    @cached_property
    def _takers(self) -> frozenset[str]:
        """The names of the functions that may be on the way: following every call of a step would parse the project."""
        library = self._project.library
        found: set[str] = set()
        new = {
            name
            for file in library.mentioning(_WORD, "grad")
            for call in file.calls
            if file.names.callee(call) == _GRAD
            for name in self._around(file, call)
        }
        for _ in range(_DEPTH):
            found |= new
            callers = {
                caller
                for name in sorted(new)
                for file in library.mentioning(name)
                for call in file.calls
                if _last_name(file, call) == name
                for caller in self._around(file, call)
            }
            new = callers - found
        return frozenset(found)

    def _around(self, file: File, call: cst.Call) -> list[str]:
        """What a call of the function around a call looks like; nothing where that is not followed."""
        function = file.tree.function(call)
        if function is None:
            return []
        reference = self._project.reference(file, function)
        if reference.owner is not None and reference.name == "__init__":
            return [reference.owner.name.value]
        return [] if self._project.is_common_method(reference) else [reference.name]


def _last_name(file: File, call: cst.Call) -> str:
    path = file.names.full(call.func) or dotted(call.func)
    if path is not None:
        return path.rpartition(".")[2]
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
