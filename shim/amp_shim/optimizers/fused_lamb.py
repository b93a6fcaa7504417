"""LAMB: Adam with a learning rate per layer, for large batches.

You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes" (2020).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lamb_stages import trust_ratios
from amp_shim.multi_tensor_apply.lists import norms
from amp_shim.optimizers.base import Batch, FusedOptimizer, Params, refuse_amsgrad


class FusedLAMB(FusedOptimizer):
    """LAMB, behind a clip of the global gradient norm.

    Each parameter's update is scaled to `lr` times the norm of the parameter, in groups with weight decay.

    Args:
        lr, betas, eps: as in Adam.
        bias_correction: correct the moments for having started from zero.
        weight_decay: coefficient of the decay; 0 leaves a group's updates as long as Adam's.
        amsgrad: must be False, as in Apex.
        adam_w_mode: decay weights beside the gradient; False adds the decay to the gradient.
        grad_averaging: weigh the new gradient in the first moment by `1 - beta1` instead of 1.
        set_grad_none: `zero_grad()` drops gradients instead of zeroing them.
        max_grad_norm: clip the norm of all gradients together to this; 0 clips nothing.
        use_nvlamb: scale updates in groups without weight decay too.

    Raises RuntimeError for `amsgrad`.
    """

    _options = (*FusedOptimizer._options, "adam_w_mode", "use_nvlamb")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ) -> None:
        refuse_amsgrad(type(self).__name__, amsgrad)
        defaults = {
            "lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "grad_averaging": grad_averaging, "max_grad_norm": max_grad_norm,
        }  # fmt: skip
        super().__init__(params, defaults, set_grad_none)
        self.adam_w_mode = adam_w_mode
        self.use_nvlamb = use_nvlamb

    def _update(self, batches: Sequence[Batch]) -> None:
        factor = _clipping(batches, self.defaults["max_grad_norm"])
        corrections = self._corrections()
        for batch in batches:
            grads = batch.grads
            if factor is not None:
                grads = list(torch._foreach_mul(grads, factor.to(grads[0].device)))
            self._update_batch(batch, grads, *corrections[id(batch.group)])

    def _update_batch(self, batch: Batch, grads: list[Tensor], correction1: float, correction2: float) -> None:
        group, decay = batch.group, batch.group["weight_decay"]
        beta1, beta2 = group["betas"]
        if decay and not self.adam_w_mode:
            grads = list(torch._foreach_add(grads, batch.weights, alpha=decay))
        first, second = self._buffers(batch, "exp_avg"), self._buffers(batch, "exp_avg_sq")
        torch._foreach_mul_(first, beta1)
        torch._foreach_add_(first, grads, alpha=1.0 - beta1 if group["grad_averaging"] else 1.0)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1.0 - beta2)
        roots = torch._foreach_div(second, correction2)
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, group["eps"])
        updates = torch._foreach_div(first, correction1)
        torch._foreach_div_(updates, roots)
        if decay and self.adam_w_mode:
            torch._foreach_add_(updates, batch.weights, alpha=decay)
        if decay or self.use_nvlamb:
            torch._foreach_mul_(updates, trust_ratios(batch.weights, updates))
        torch._foreach_add_(batch.weights, updates, alpha=-group["lr"])


def _clipping(batches: Sequence[Batch], max_norm: float) -> Tensor | None:
    """What gradients are multiplied by so that their global norm is at most `max_norm`; None for no limit."""
    if not batches or max_norm <= 0:
        return None
    device = batches[0].grads[0].device
    found = [norm.to(device) for batch in batches for norm in norms(batch.grads)]
    total: Tensor = torch.linalg.vector_norm(torch.stack(found))
    return (max_norm / total).clamp(max=1.0)
