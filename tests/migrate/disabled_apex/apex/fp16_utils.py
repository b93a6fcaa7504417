"""What `apex.fp16_utils` would do in float32: the network as it is, and an optimizer that goes backward."""

from __future__ import annotations

from typing import Any

import torch


def network_to_half(network: torch.nn.Module) -> torch.nn.Module:
    """The network as it is."""
    return network


class FP16_Optimizer:
    """An optimizer on float32 weights, which need no masters and no loss scale."""

    def __init__(self, init_optimizer: torch.optim.Optimizer, **options: Any) -> None:
        self.optimizer = init_optimizer

    def zero_grad(self) -> None:
        """As the optimizer does."""
        self.optimizer.zero_grad()

    def backward(self, loss: torch.Tensor) -> None:
        """The loss's own."""
        loss.backward()

    def clip_master_grads(self, max_norm: float) -> None:
        """Clip what is stepped."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    def step(self) -> None:
        """As the optimizer does."""
        self.optimizer.step()
