"""SGD with momentum, on torch's multi-tensor kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import required
from torch.optim.sgd import sgd

from amp_shim.optimizers.base import Batch, FusedOptimizer, Params


class FusedSGD(FusedOptimizer):
    """`torch.optim.SGD`, with momentum in float32.

    Args:
        lr: as in torch; needed where a parameter group has none of its own.
        momentum, dampening, weight_decay, nesterov: as in torch.
        wd_after_momentum: add the decay to the update instead of the gradient, so that momentum never sees it.
        materialize_master_grads: how Apex saved a copy at O2; master gradients always exist here.
        set_grad_none: `zero_grad()` drops gradients instead of zeroing them.

    Raises ValueError for a negative `lr`, `momentum` or `weight_decay`, for a group without `lr`, and for Nesterov
    momentum that is zero or dampened.
    """

    _options = (*FusedOptimizer._options, "wd_after_momentum", "materialize_master_grads")

    def __init__(
        self,
        params: Params,
        lr: Any = required,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
        materialize_master_grads: bool = True,
        set_grad_none: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not required and value < 0.0:
                raise ValueError(f"FusedSGD: {name} must not be negative, found {value}")
        if nesterov and (momentum == 0 or dampening != 0):
            raise ValueError("FusedSGD: nesterov=True needs a momentum and no dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov
        }  # fmt: skip
        super().__init__(params, defaults, set_grad_none)
        self.wd_after_momentum = wd_after_momentum
        self.materialize_master_grads = materialize_master_grads

    def _update(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            group = batch.group
            momenta: list[Tensor | None] = [self.state[param].get("momentum_buffer") for param in batch.params]
            decay = group["weight_decay"]
            if self.wd_after_momentum:
                torch._foreach_mul_(batch.weights, 1.0 - group["lr"] * decay)
                decay = 0.0
            sgd(
                batch.weights,
                batch.grads,
                momenta,
                foreach=True,
                weight_decay=decay,
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=False,
            )
            for param, momentum in zip(batch.params, momenta, strict=True):
                if momentum is not None:
                    self.state[param]["momentum_buffer"] = momentum
