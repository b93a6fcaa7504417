"""What is watched on modules: values that are not finite, and cuDNN's choice of algorithms."""

from __future__ import annotations

from typing import Any

import torch

from .objects import Objects, tensors_of

_MOST = 64


def nonfinite(objects: Objects) -> list[str]:
    """The first of the parameters and buffers that hold an infinity or a NaN, by the model's class and the name."""
    found = (
        f"{type(module).__name__}.{name}"
        for module in objects.models()
        for name, tensor in tensors_of(module)
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.detach()).all())
    )
    return sorted({name for name, _ in zip(found, range(_MOST), strict=False)})


def choose_no_algorithms() -> None:
    """Keep cuDNN from timing its algorithms, whatever the script says: the choice differs from run to run."""
    torch.backends.cudnn.benchmark = False
    backend: Any = torch._C
    backend._set_cudnn_benchmark = lambda value: None  # asked by `torch.backends.cudnn.flags`
    switch: Any = vars(type(torch.backends.cudnn))["benchmark"]
    switch.setter = backend._set_cudnn_benchmark
