"""What is watched on modules: batch statistics that may overflow, and cuDNN's choice of algorithms."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

_MOST = 4096  # layers that are kept; scripts that copy their models again and again make more


class ModuleWatch:
    """Keeps every normalisation layer with running statistics: those of a model outlive the function that made it."""

    def __init__(self) -> None:
        self._layers: dict[int, torch.nn.Module] = {}
        kind: Any = _NormBase
        init, set_state = kind.__init__, kind.__setstate__

        @functools.wraps(init)
        def made(layer: Any, *args: Any, **kwargs: Any) -> None:
            init(layer, *args, **kwargs)
            self._keep(layer)

        @functools.wraps(set_state)
        def copied(layer: Any, state: Any) -> None:  # by `deepcopy` and `pickle`, which make layers without `__init__`
            set_state(layer, state)
            self._keep(layer)

        kind.__init__, kind.__setstate__ = made, copied

    def _keep(self, layer: torch.nn.Module) -> None:
        if len(self._layers) < _MOST:
            self._layers[id(layer)] = layer

    def nonfinite_statistics(self) -> int:
        """How many of the layers hold a running statistic that is not finite."""
        layers = self._layers.values()
        return sum(not all(bool(torch.isfinite(buffer).all()) for buffer in layer.buffers()) for layer in layers)


def choose_no_algorithms() -> None:
    """Keep cuDNN from timing its algorithms, whatever the script says: the choice differs from run to run."""
    torch.backends.cudnn.benchmark = False
    backend: Any = torch._C
    backend._set_cudnn_benchmark = lambda value: None  # asked by `torch.backends.cudnn.flags`
    switch: Any = vars(type(torch.backends.cudnn))["benchmark"]
    switch.setter = backend._set_cudnn_benchmark
