"""Apex's mixed-precision API and readable cast lists, on today's PyTorch.

    from amp_shim import amp  # in place of `from apex import amp`

or `python -m amp_shim train.py` for a script that nobody may edit. Importing this package patches nothing, and does
not import torch before a part of it is used.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_PARTS = frozenset("amp fp16_utils fused_dense mlp multi_tensor_apply normalization optimizers parallel pyprof".split())


def __getattr__(name: str) -> ModuleType:
    """The parts of Apex, so that `import amp_shim as apex` is enough for `apex.amp`."""
    if name in _PARTS:
        return importlib.import_module(f"amp_shim.{name}")
    raise AttributeError(f"module 'amp_shim' has no attribute {name!r}")
