"""Adagrad, with the decay in the gradient or beside it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from amp_shim.optimizers.base import Batch, FusedOptimizer, Params


class FusedAdagrad(FusedOptimizer):
    """`torch.optim.Adagrad` without decay of the learning rate.

    Args:
        lr, eps, weight_decay: as in torch.
        set_grad_none: `zero_grad()` drops gradients instead of zeroing them.
        adagrad_w_mode: decay weights beside the gradient, as AdamW does, instead of through it.
    """

    _options = (*FusedOptimizer._options, "adagrad_w_mode")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        set_grad_none: bool = True,
        adagrad_w_mode: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay}, set_grad_none)
        self.adagrad_w_mode = adagrad_w_mode

    def _update(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            lr, decay = batch.group["lr"], batch.group["weight_decay"]
            grads = batch.grads
            if decay and not self.adagrad_w_mode:
                grads = list(torch._foreach_add(grads, batch.weights, alpha=decay))
            sums = self._buffers(batch, "sum")
            torch._foreach_addcmul_(sums, grads, grads)
            roots = torch._foreach_sqrt(sums)
            torch._foreach_add_(roots, batch.group["eps"])
            if self.adagrad_w_mode:
                torch._foreach_mul_(batch.weights, 1.0 - lr * decay)
            torch._foreach_addcdiv_(batch.weights, grads, roots, -lr)
