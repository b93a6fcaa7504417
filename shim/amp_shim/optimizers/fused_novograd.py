"""NovoGrad: Adam with one second moment per layer, normalising gradients before momentum.

Ginsburg et al., "Stochastic Gradient Methods with Layer-wise Adaptive Moments for Training of Deep Networks" (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from amp_shim.multi_tensor_apply.lists import norms
from amp_shim.optimizers.base import Batch, FusedOptimizer, Params, refuse_amsgrad


class FusedNovoGrad(FusedOptimizer):
    """NovoGrad. The second moment of a parameter is kept as a norm, `state[param]["exp_avg_sq"]`, a scalar tensor.

    Args:
        lr, betas, eps, weight_decay: as in Adam.
        bias_correction: correct the moments for having started from zero.
        amsgrad: must be False, as in Apex.
        reg_inside_moment: add the decay to the normalised gradient before momentum, not to the update.
        grad_averaging: weigh the new gradient in the first moment by `1 - beta1` instead of 1.
        norm_type: 2 for the Euclidean norm of a gradient, 0 for the largest entry.
        init_zero: start the second moment from zero, not from the norm of the first gradient.
        set_grad_none: `zero_grad()` drops gradients instead of zeroing them.

    Raises RuntimeError for `amsgrad` and for another `norm_type`.
    """

    _options = (*FusedOptimizer._options, "reg_inside_moment")

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        reg_inside_moment: bool = False,
        grad_averaging: bool = True,
        norm_type: int = 2,
        init_zero: bool = False,
        set_grad_none: bool = True,
    ) -> None:
        refuse_amsgrad("FusedNovoGrad", amsgrad)
        if norm_type not in (0, 2):
            raise RuntimeError(f"FusedNovoGrad: norm_type must be 2, or 0 for the largest entry, found {norm_type}")
        defaults = {
            "lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "grad_averaging": grad_averaging, "norm_type": norm_type, "init_zero": init_zero,
        }  # fmt: skip
        super().__init__(params, defaults, set_grad_none)
        self.reg_inside_moment = reg_inside_moment

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state; Apex's checkpoints keep the norms of a group in two vectors, half parameters first."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            vectors = group.pop("exp_avg_sq", None)
            if vectors is not None:
                self._take_apart(group["params"], *vectors)

    def _take_apart(self, params: Sequence[Parameter], halves: Tensor, floats: Tensor) -> None:
        stepped = [param for param in params if param in self.state]
        for vector, is_half in ((halves, True), (floats, False)):
            owners = [param for param in stepped if (param.dtype is torch.float16) is is_half]
            for param, norm in zip(owners, vector.unbind(), strict=True):
                self.state[param]["exp_avg_sq"] = norm.to(param.device, torch.float32, copy=True)

    def _update(self, batches: Sequence[Batch]) -> None:
        corrections = self._corrections()
        for batch in batches:
            correction1, correction2 = corrections[id(batch.group)]
            group, decay = batch.group, batch.group["weight_decay"]
            scales = torch._foreach_div(self._norms(batch), sqrt(correction2))
            torch._foreach_add_(scales, group["eps"])
            first = self._buffers(batch, "exp_avg")
            torch._foreach_mul_(first, group["betas"][0])
            share = 1.0 - group["betas"][0] if group["grad_averaging"] else 1.0
            if self.reg_inside_moment:
                normalised = torch._foreach_div(batch.grads, scales)
                torch._foreach_add_(normalised, batch.weights, alpha=decay)
                torch._foreach_add_(first, normalised, alpha=share)
                updates = torch._foreach_div(first, correction1)
            else:
                torch._foreach_add_(first, batch.grads, alpha=share)
                updates = torch._foreach_div(first, correction1)
                torch._foreach_div_(updates, scales)
                torch._foreach_add_(updates, batch.weights, alpha=decay)
            torch._foreach_add_(batch.weights, updates, alpha=-group["lr"])

    def _norms(self, batch: Batch) -> list[Tensor]:
        """The running norms of a batch's gradients, with the new gradients taken in."""
        largest, beta2 = batch.group["norm_type"] == 0, batch.group["betas"][1]
        new = torch._foreach_norm(batch.grads, inf) if largest else norms(batch.grads)
        for param, norm in zip(batch.params, new, strict=True):
            if "exp_avg_sq" not in self.state[param]:
                first = torch.zeros_like(norm) if batch.group["init_zero"] else norm.clone()
                self.state[param]["exp_avg_sq"] = first
        running: list[Tensor] = [self.state[param]["exp_avg_sq"] for param in batch.params]
        if largest:
            torch._foreach_lerp_(running, list(new), 1.0 - beta2)
        else:
            torch._foreach_mul_(running, running)
            torch._foreach_mul_(running, beta2)
            torch._foreach_addcmul_(running, list(new), list(new), 1.0 - beta2)
            torch._foreach_sqrt_(running)
        return running
