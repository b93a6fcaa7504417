"""What `import apex` gives while the shim answers for it."""

from __future__ import annotations

from typing import NoReturn

from amp_shim import (
    amp,
    fp16_utils,
    fused_dense,
    mlp,
    multi_tensor_apply,
    normalization,
    optimizers,
    parallel,
    pyprof,
)
from amp_shim.install import contrib
from amp_shim.install.instead import INSTEAD, advice

# A package without files: the import system asks `amp_shim.install` for every submodule.
__path__: list[str] = []

__all__ = [
    "amp",
    "contrib",
    "fp16_utils",
    "fused_dense",
    "mlp",
    "multi_tensor_apply",
    "normalization",
    "optimizers",
    "parallel",
    "pyprof",
]


def __getattr__(name: str) -> NoReturn:
    if f"apex.{name}" not in INSTEAD:
        raise AttributeError(f"module 'apex' has no attribute {name!r}")
    # `from apex import RNN` looks for an attribute first, and keeps quiet about the submodule's error.
    raise ImportError(advice(f"apex.{name}"), name=f"apex.{name}")
