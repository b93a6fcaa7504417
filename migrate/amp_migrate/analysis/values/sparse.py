"""Modules that compute with sparse tensors, which have few half-precision kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.trees.nodes import method_of

_PRODUCTS = ("torch.spmm", "torch.hspmm", "torch.smm", "torch.sspaddmm")
_LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
_WORDS = (
    *("sparse", "to_sparse", *(each.rpartition(".")[2] for each in _PRODUCTS)),
    *(word for layout in _LAYOUTS for word in (f"to_sparse_{layout}", f"sparse_{layout}_tensor")),
)
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")
_MAX_IMPORTS = 3


def is_sparse(file: File, call: cst.Call) -> bool:
    """Whether a call makes a sparse tensor, or computes with one."""
    full = file.names.callee(call)
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value.startswith("to_sparse")
    is_of_sparse = full.startswith("torch.sparse") and not full.startswith("torch.sparse.torch.")  # torch itself
    return is_method or is_of_sparse or full in _PRODUCTS


class SparseModules:
    """The classes of a project with a `forward` that compute with sparse tensors."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def below(self, file: File) -> Iterator[tuple[File, cst.Call]]:
        """The sparse calls of modules in files that a file imports, directly or through others."""
        library = self._project.library
        yield from ((where, call) for where, call in self._calls if library.brings(file, where, _MAX_IMPORTS))

    @cached_property
    def _calls(self) -> list[tuple[File, cst.Call]]:
        files = self._project.library.defining("forward", text=lambda text: _WORD.search(text) is not None)
        return [
            (file, call) for file in files for call in file.calls if is_sparse(file, call) and _is_of_module(file, call)
        ]


def _is_of_module(file: File, call: cst.Call) -> bool:
    owner = file.tree.owner_class(call)
    return owner is not None and method_of(owner, "forward") is not None
