"""Layer-wise adaptive learning rates, around any optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class LARC:
    """Scales each parameter's gradient by a local learning rate before the wrapped optimizer steps.

    The local rate is `trust_coefficient * |param| / (|grad| + weight_decay * |param|)`. With `clip` it never exceeds
    the group's own rate; without, it multiplies it. Parameters or gradients of norm zero are left as they are.

    Args:
        optimizer: the optimizer to wrap, kept as `optim`.
        trust_coefficient: the ratio of update to parameter.
        clip: limit the local rate by the group's (LARC) instead of scaling it (LARS).
        eps: added to the denominator.
    """

    def __init__(
        self, optimizer: Optimizer, trust_coefficient: float = 0.02, clip: bool = True, eps: float = 1e-8
    ) -> None:
        self.optim = optimizer
        self.trust_coefficient = trust_coefficient
        self.clip = clip
        self.eps = eps

    @property
    def state(self) -> Any:
        return self.optim.state

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optim.param_groups

    @param_groups.setter
    def param_groups(self, value: list[dict[str, Any]]) -> None:
        self.optim.param_groups = value

    def state_dict(self) -> dict[str, Any]:
        return self.optim.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optim.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optim.add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Adapt the gradients in place and step the wrapped optimizer. Raises RuntimeError if given a closure."""
        if closure is not None:
            raise RuntimeError("LARC changes gradients before the step and takes no closure; call step() without one")
        decays = [group.get("weight_decay", 0.0) for group in self.param_groups]
        for group, decay in zip(self.param_groups, decays, strict=True):
            for param in group["params"]:
                if param.grad is not None:
                    self._adapt(param, param.grad, group["lr"], decay)
            group["weight_decay"] = 0.0
        try:
            self.optim.step()
        finally:
            for group, decay in zip(self.param_groups, decays, strict=True):
                group["weight_decay"] = decay

    def _adapt(self, param: Tensor, grad: Tensor, lr: float, decay: float) -> None:
        norm, grad_norm = torch.linalg.vector_norm(param), torch.linalg.vector_norm(grad)
        rate = self.trust_coefficient * norm / (grad_norm + decay * norm + self.eps)
        if self.clip:
            rate = (rate / lr).clamp(max=1.0)
        moves = (norm != 0) & (grad_norm != 0)
        # Chosen on the device: a test on the host would wait for it once per parameter.
        grad.copy_(torch.where(moves, (grad + decay * param) * rate, grad))
