"""`torch.compile` where a CPU stands in for a GPU: nothing is compiled, because compiled code passes the stand-in by.

CUDA's casts are made at the dispatcher, which code for the CPU's own kernels does not go through. The wrapper that a
compiled model has is there, so that `_orig_mod` and the names in its state are what they are on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def install(told: Callable[[], None]) -> None:
    """Run everything as it is written; `told` is called for whatever was to be compiled."""
    holder: Any = torch
    original = torch.compile

    def compile(model: Any = None, **options: Any) -> Any:
        if options.get("disable"):
            return original(model, **options)
        if model is None:
            return lambda function: compile(function, **options)
        told()
        return torch._dynamo.disable(model) if isinstance(model, nn.Module) else model

    def compile_in_place(model: nn.Module, *args: Any, **options: Any) -> None:
        told()

    holder.compile, holder.nn.Module.compile = compile, compile_in_place
