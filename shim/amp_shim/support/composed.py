"""Autograd functions of Apex that scripts name, composed of functions of torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor


class ComposedFunction(torch.autograd.Function):
    """An autograd function whose gradients are those of `compute`.

    For scripts that call `apply`, and for those that call `forward` and `backward` from a function of their own. As in
    Apex, arguments are taken in the types that they have, whatever region of autocast is around.
    """

    @staticmethod
    @abstractmethod
    def compute(*args: Any) -> Tensor:
        """The result, by differentiable functions of torch."""

    @classmethod
    def forward(cls, ctx: Any, *args: Any) -> Tensor:
        with torch.enable_grad(), torch.autocast(_device_type(args), enabled=False):
            leaves = [_leaf(arg) for arg in args]
            result = cls.compute(*leaves)
        # Not `save_for_backward`: the graph between leaves and result is what is saved.
        ctx.leaves, ctx.result = leaves, result
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = [leaf for leaf in ctx.leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
        found = torch.autograd.grad(
            ctx.result, wanted, grads[0].to(ctx.result.dtype), retain_graph=True, allow_unused=True
        )
        by_leaf = dict(zip(map(id, wanted), found, strict=True))
        return tuple(by_leaf.get(id(leaf)) for leaf in ctx.leaves)


def _leaf(arg: Any) -> Any:
    return arg.detach().requires_grad_(arg.is_floating_point()) if isinstance(arg, Tensor) else arg


def _device_type(args: tuple[Any, ...]) -> str:
    return next(arg.device.type for arg in args if isinstance(arg, Tensor))
