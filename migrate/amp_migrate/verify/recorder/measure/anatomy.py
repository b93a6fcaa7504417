"""What the first steps consist of: matrix operations by dtype and shape, casts, and reads that wait for the GPU.

Looked at from the calls a script makes, as the census does: what autocast does shows there in the same way on a GPU and
on the CPU that stands in for one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ..progress import Progress
from ..record.census import FirstSteps

_HALVES = (torch.float16, torch.bfloat16)
_READS = frozenset({"item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__float__", "__int__", "__index__"})
_CASTS = frozenset({"float", "half", "bfloat16", "to", "type", "type_as"})


class _Products(TorchDispatchMode):
    """Counts the floating-point operations of matrix products and convolutions, and remembers their sizes."""

    flops = 0
    sizes: tuple[int, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=result)
            self.sizes = _sizes(str(func._overloadpacket), args)
        return result


_products: Any = _Products  # torch's modes carry no annotations


class _Looking(TorchFunctionMode):
    def __init__(self, on_gpu: bool) -> None:
        super().__init__()
        self._on_gpu = on_gpu
        self.products: Counter[tuple[str, str, tuple[int, ...]]] = Counter()
        self.reads: Counter[str] = Counter()
        self.weight_casts = self.other_casts = self.cast_bytes = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _READS and self._waits(args):
            self.reads[name] += 1
        if not torch.is_grad_enabled():
            return func(*args, **kwargs)
        products = _products()
        with products:
            result = func(*args, **kwargs)
        first = next((leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)), None)
        if first is None:
            return result
        if products.flops:
            self.products[name, str(first.dtype).removeprefix("torch."), products.sizes] += products.flops
        if first.dtype in _HALVES and (products.flops or name in _CASTS):
            self._count_casts(tree_leaves((args, kwargs)))
        return result

    def _waits(self, args: Any) -> bool:
        """Whether a GPU has to have computed what is read; of a stand-in's tensors all may have been on one."""
        return not self._on_gpu or any(isinstance(each, torch.Tensor) and each.is_cuda for each in args[:1])

    def _count_casts(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
                self.cast_bytes += value.numel() * value.element_size()
                if value.is_leaf and value.requires_grad:
                    self.weight_casts += 1
                else:
                    self.other_casts += 1


_looking: Any = _Looking


def look(progress: Progress) -> FirstSteps:
    """Look from now on, and write an `anatomy` event."""
    mode = _looking(progress.device == "cuda")

    def write() -> None:
        progress.writer.put(
            "anatomy",
            steps=progress.attempts,
            products=[[name, dtype, list(sizes), flops] for (name, dtype, sizes), flops in mode.products.items()],
            weight_casts=mode.weight_casts,
            other_casts=mode.other_casts,
            cast_bytes=mode.cast_bytes,
            reads=dict(mode.reads),
        )

    return FirstSteps(progress, mode, write)


def _sizes(operation: str, args: Any) -> tuple[int, ...]:
    """The sizes that matrix units want to be multiples of eight: a product's three, a convolution's two of channels."""
    shapes = [value.shape for value in args if isinstance(value, torch.Tensor)]
    if "convolution" in operation:
        return (int(shapes[1][1]), int(shapes[1][0]))
    if "attention" in operation:
        return (int(shapes[0][-1]),)
    (rows, inner), columns = shapes[-2][-2:], shapes[-1][-1]
    return (int(rows), int(inner), int(columns))
