"""Loss scales that the training loop drives by hand."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class LossScaler:
    """A constant loss scale; gradients are never checked."""

    def __init__(self, scale: float = 1) -> None:
        self.cur_scale = float(scale)

    @property
    def loss_scale(self) -> float:
        """The current scale."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """False: a constant scale lets an overflow pass."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """The scale stays."""

    def scale_gradient(self, module: nn.Module, grad_in: Iterable[Tensor], grad_out: object) -> tuple[Tensor, ...]:
        """A backward hook that scales the gradients of a module's inputs."""
        return tuple(self.loss_scale * grad for grad in grad_in)

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """Run backward from the scaled loss."""
        (loss * self.loss_scale).backward(retain_graph=retain_graph)


class DynamicLossScaler(LossScaler):
    """A loss scale that falls on overflow, never below 1, and grows after `scale_window` clean iterations.

    Args:
        init_scale: where the scale starts.
        scale_factor: what it is multiplied or divided by.
        scale_window: clean iterations between two increases.
    """

    def __init__(self, init_scale: float = 2**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        super().__init__(init_scale)
        self.cur_iter = 0
        self.last_overflow_iter = -1
        self.scale_factor = scale_factor
        self.scale_window = scale_window

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """Whether a gradient of these parameters holds an inf or a NaN. Waits for the device once."""
        grads = [param.grad for param in params if param.grad is not None]
        if not grads:
            return False
        device = grads[0].device
        return not bool(torch.stack([grad.isfinite().all().to(device) for grad in grads]).all())

    def update_scale(self, overflow: bool) -> None:
        """Move the scale at the end of an iteration."""
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1.0)
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1
