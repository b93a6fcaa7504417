"""Adagrad, with the decay in the gradient or beside it."""

from __future__ import annotations

from collections.abc import Sequence

from amp_shim.multi_tensor_apply.adagrad import multi_tensor_adagrad
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
            lists = [batch.grads, batch.weights, self._buffers(batch, "sum")]
            lr, eps, decay = (batch.group[name] for name in ("lr", "eps", "weight_decay"))
            multi_tensor_adagrad(0, None, lists, lr, eps, self.adagrad_w_mode, decay)
