"""Sparse tensors, which have few half-precision kernels, and modules that compute with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.tables.torch_names import HANDS_BACK
from amp_migrate.trees.nodes import method_of

_PRODUCTS = ("torch.spmm", "torch.hspmm", "torch.smm", "torch.sspaddmm")
_LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
_WORDS = (
    *("sparse", "to_sparse", *(each.rpartition(".")[2] for each in _PRODUCTS)),
    *(word for layout in _LAYOUTS for word in (f"to_sparse_{layout}", f"sparse_{layout}_tensor")),
)
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")
_MAX_IMPORTS = 3
_STILL_SPARSE = frozenset(("coalesce", "t", "transpose"))


def _is_sparse(file: File, call: cst.Call) -> bool:
    """Whether a call makes a sparse tensor, or computes with one."""
    full = file.names.callee(call)
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value.startswith("to_sparse")
    is_of_sparse = full.startswith("torch.sparse") and not full.startswith("torch.sparse.torch.")  # torch itself
    return is_method or is_of_sparse or full in _PRODUCTS


class SparseTensors:
    """The calls of a project that make sparse tensors, or compute with them, and that do not only make dense ones."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def of(self, file: File) -> Iterator[cst.Call]:
        """Those of a file."""
        return (
            call
            for call in file.calls
            if _is_sparse(file, call) and not (_makes_tensor(file, call) and self._is_made_dense(file, call, ()))
        )

    def _is_made_dense(self, file: File, call: cst.Call, seen: tuple[cst.CSTNode, ...]) -> bool:
        """Whether all that becomes of a value is `to_dense()`: at once, by its only name, or behind a function."""
        tree = file.tree
        around = tree.parents[call]
        if isinstance(around, cst.Attribute):
            method = tree.parents[around]
            if not isinstance(method, cst.Call) or method.func is not around:
                return False
            is_same = around.attr.value in HANDS_BACK | _STILL_SPARSE
            return around.attr.value == "to_dense" or (is_same and self._is_made_dense(file, method, seen))
        function = tree.function(call)
        if isinstance(around, cst.Return) and function is not None and function not in seen:
            sites = self._project.call_sites(self._project.reference(file, function))
            return bool(sites) and all(self._is_made_dense(e.file, e.call, (*seen, function)) for e in sites or ())
        if not isinstance(around, cst.Assign) or len(around.targets) != 1:
            return False
        name = around.targets[0].target
        if not isinstance(name, cst.Name) or len(file.scopes.of(name).lookup(name.value)) != 1:
            return False
        uses = [each for each in file.uses[name.value] if each is not name]
        return bool(uses) and all(_is_called(file, each, "to_dense") for each in uses)

    def below(self, file: File) -> Iterator[tuple[File, cst.Call]]:
        """The sparse calls in classes with a `forward`, in files that a file imports, directly or through others."""
        library = self._project.library
        yield from ((where, call) for where, call in self._calls if library.brings(file, where, _MAX_IMPORTS))

    @cached_property
    def _calls(self) -> list[tuple[File, cst.Call]]:
        files = self._project.library.defining("forward", text=lambda text: _WORD.search(text) is not None)
        return [(file, call) for file in files for call in self.of(file) if _is_of_module(file, call)]


def _makes_tensor(file: File, call: cst.Call) -> bool:
    """Whether a call makes a sparse tensor by what it is given, and computes nothing with one."""
    full = file.names.callee(call)
    return full not in _PRODUCTS and (not full.startswith("torch.sparse.") or full.endswith("Tensor"))


def _is_called(file: File, value: cst.CSTNode, method: str) -> bool:
    """Whether a value is there for the call of a method."""
    around = file.tree.parents[value]
    is_method = isinstance(around, cst.Attribute) and around.value is value and around.attr.value == method
    return is_method and isinstance(file.tree.parents[around], cst.Call)


def _is_of_module(file: File, call: cst.Call) -> bool:
    owner = file.tree.owner_class(call)
    return owner is not None and method_of(owner, "forward") is not None
