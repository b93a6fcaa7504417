"""What is watched on modules while they run: batch statistics that may overflow, and cuDNN's choice of algorithms."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.module import register_module_forward_pre_hook


class ModuleWatch:
    """Remembers every normalisation layer with running statistics that was called."""

    def __init__(self) -> None:
        self._layers: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        register_module_forward_pre_hook(self._before_forward)

    def _before_forward(self, module: torch.nn.Module, arguments: Any) -> None:
        # A benchmarked choice differs from run to run. Scripts switch it on after their imports, so off here.
        if torch._C._get_cudnn_benchmark():
            torch.backends.cudnn.benchmark = False
        if isinstance(module, _NormBase) and module.running_mean is not None:
            self._layers.add(module)

    def nonfinite_statistics(self) -> int:
        """How many of the layers hold a running statistic that is not finite."""
        return sum(not all(bool(torch.isfinite(buffer).all()) for buffer in layer.buffers()) for layer in self._layers)
