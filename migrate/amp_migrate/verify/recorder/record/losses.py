"""Losses: every backward pass, with the loss as it was before any scaling."""

from __future__ import annotations

import functools
from operator import is_not
from typing import Any

import torch

from ..progress import Progress, is_looked_at

_UNSCALED = "_amp_verify_unscaled"
_LOSS_NODES = ("BinaryCrossEntropy", "HuberLoss", "KlDiv", "MseLoss", "NllLoss", "SmoothL1Loss", "SoftMarginLoss")
_PASSED_NODES = ("Mul", "Div", "Add", "ToCopy")  # between the loss function and `backward()`


def mark_scaled(scaled: Any, unscaled: Any) -> None:
    """Remember on a scaled loss, or on each of several, the loss it was made from."""
    if isinstance(scaled, torch.Tensor) and isinstance(unscaled, torch.Tensor):
        if scaled is not unscaled:
            setattr(scaled, _UNSCALED, unscaled)
    elif isinstance(scaled, (list, tuple)) and isinstance(unscaled, (list, tuple)):
        for pair in zip(scaled, unscaled, strict=True):
            mark_scaled(*pair)


def install(progress: Progress) -> None:
    """Record a `backward` event for each call of `Tensor.backward` and `torch.autograd.backward`."""
    autograd: Any = torch.autograd
    backward = autograd.backward

    @functools.wraps(backward)
    def recorded(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        progress.begin_backward()
        losses: Any = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        unscaled = [getattr(loss, _UNSCALED, loss) for loss in losses]
        fields: dict[str, Any] = {"loss": [_value(loss) for loss in unscaled]}
        if any(map(is_not, unscaled, losses)):
            fields["seen"] = [_value(loss) for loss in losses]
        if is_looked_at(progress.backwards):
            fields["half"] = sorted({name for loss in losses if (name := half_loss_function(loss))})
        progress.writer.put("backward", **fields, autocast=progress.autocast_on(), attempt=progress.attempts)
        progress.backwards += 1
        return backward(tensors, *args, **kwargs)

    autograd.backward = recorded


def half_loss_function(loss: torch.Tensor) -> str:
    """The loss function of PyTorch's that gave this loss, if it computed in half precision; empty otherwise.

    Autocast runs them all in float32, so one in half was called outside every region, on half values.
    """
    node: Any = loss.grad_fn
    while node is not None:
        name = type(node).__name__
        if name.startswith(_LOSS_NODES):
            return name.partition("Backward")[0] if _dtype(node) in (torch.float16, torch.bfloat16) else ""
        if not name.startswith(_PASSED_NODES) or not node.next_functions:
            return ""
        node = node.next_functions[0][0]
    return ""


def _dtype(node: Any) -> torch.dtype:
    """The dtype that a loss function computed in: that of its result, and of its input."""
    metadata = getattr(node, "_input_metadata", None)  # PyTorch 2.4 has none
    dtype: torch.dtype = node._saved_self.dtype if metadata is None else metadata[0].dtype
    return dtype


def _value(loss: torch.Tensor) -> torch.Tensor:
    """The loss as a tensor of one element that later in-place work cannot change; the mean of several elements."""
    detached = loss.detach()
    return detached.clone() if detached.numel() == 1 else detached.double().mean()
