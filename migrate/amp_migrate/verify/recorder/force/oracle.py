"""The noise floor: the script as it is, with nothing but its forward passes rounded to bfloat16.

The outermost call of a module that has parameters runs under autocast, and its results come back in float32. Losses
computed outside stay float32, but for one: `cross_entropy` asks `log_softmax` for the dtype of its input, so autocast
lets it round the log-probabilities of a half input, and a right migration has that noise too. bfloat16 is the coarser
of the two formats, so the same floor bounds float16.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.utils._pytree import tree_map

from .ulp import Off

_ULP = 2.0**-8

_local = threading.local()


def install(device: str, number: int) -> None:
    """Wrap the outermost module calls; `device` is the autocast device type the tensors are on.

    Of several oracles, which tell how much noise differs from noise, all but the first round their results again.
    """
    off = Off(number, _ULP) if number > 1 else None
    module: Any = torch.nn.Module
    call = module.__call__
    set_enabled, set_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype

    @contextmanager
    def region() -> Iterator[None]:
        before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        set_enabled(device, True)
        set_dtype(device, torch.bfloat16)
        torch.autocast_increment_nesting()
        _local.inside = True
        try:
            yield
        finally:
            _local.inside = False
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
            set_enabled(device, before[0])
            set_dtype(device, before[1])

    @functools.wraps(call)
    def rounded(self: Any, *args: Any, **kwargs: Any) -> Any:
        outermost = not getattr(_local, "inside", False)
        traced = torch._C._get_tracing_state() is not None  # by what draws the model's graph: it must find one program
        if traced or not (outermost and torch.is_grad_enabled() and any(True for _ in self.parameters())):
            return call(self, *args, **kwargs)
        with region():
            results = call(self, *args, **kwargs)
        results = tree_map(_to_float32, results)
        return tree_map(off, results) if off is not None else results

    functional: Any = torch.nn.functional
    cross_entropy = functional.cross_entropy

    @functools.wraps(cross_entropy)
    def rounded_cross_entropy(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if getattr(_local, "inside", False) or not input.requires_grad:
            return cast(torch.Tensor, cross_entropy(input, *args, **kwargs))
        with region():
            return cast(torch.Tensor, cross_entropy(input.bfloat16(), *args, **kwargs))

    module.__call__ = rounded
    functional.cross_entropy = rounded_cross_entropy


def _to_float32(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16 else value
