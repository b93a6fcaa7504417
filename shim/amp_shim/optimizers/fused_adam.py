"""Adam and AdamW, on torch's fused kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from amp_shim.multi_tensor_apply.adam import multi_tensor_adam
from amp_shim.multi_tensor_apply.lists import write
from amp_shim.optimizers.base import Batch, FusedOptimizer, Params, refuse_amsgrad
from amp_shim.support.casting import LOW_PRECISION

_FUSED = ("cpu", "cuda")


class FusedAdam(FusedOptimizer):
    """AdamW with weight decay 0 by default, or Adam with `adam_w_mode=False`; moments in float32.

    Args:
        lr, betas, eps, weight_decay: as in `torch.optim.AdamW`.
        bias_correction: correct the moments for having started from zero.
        adam_w_mode: decay weights beside the gradient (AdamW); False adds the decay to the gradient (Adam).
        amsgrad: must be False, as in Apex.
        set_grad_none: `zero_grad()` drops gradients instead of zeroing them.
        capturable: for CUDA graphs: the learning rate is a tensor, and a GradScaler leaves unscaling and skipping to
            the kernel, without waiting for the device.
        master_weights: keep float32 weights of half parameters between steps; needs `capturable`.

    Checkpoints count steps by parameter, so `torch.optim.AdamW` loads them.

    Raises RuntimeError for `amsgrad`, and for `master_weights` without `capturable`.
    """

    _options = (*FusedOptimizer._options, "adam_w_mode", "capturable", "_step_supports_amp_scaling")
    # What Apex's class has of its kernel, for subclasses with a `step()` of their own.
    multi_tensor_adam = staticmethod(multi_tensor_adam)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
        capturable: bool = False,
        master_weights: bool = False,
    ) -> None:
        refuse_amsgrad("FusedAdam", amsgrad)
        if master_weights and not capturable:
            raise RuntimeError("FusedAdam: master_weights=True needs capturable=True")
        defaults = {
            "lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay
        }  # fmt: skip
        super().__init__(params, defaults, set_grad_none)
        self._mastered = LOW_PRECISION if master_weights else ()
        self.adam_w_mode = adam_w_mode
        self.capturable = capturable
        # Read by GradScaler: it hands over its scale and its flag as attributes instead of unscaling.
        self._step_supports_amp_scaling = capturable
        if capturable:
            for group in self.param_groups:
                group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=group["params"][0].device)

    @property
    def _dummy_overflow_buf(self) -> Tensor:
        return torch.zeros(1, dtype=torch.int32, device=self.param_groups[0]["params"][0].device)

    def step(self, closure: Callable[[], Any] | None = None, *removed: object, **also_removed: object) -> Any:
        """Update the parameters. Raises RuntimeError for the arguments that Apex took before 2019."""
        if any(value is not None for value in (*removed, *also_removed.values())):
            raise RuntimeError("FusedAdam.step takes no gradients, scales or norms any more; call step() without them")
        return super().step(closure)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state; Apex's checkpoints count steps by group."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            count = group.pop("step", None)
            for param in group["params"]:
                if param in self.state:
                    steps = self.state[param]["step"] if count is None else count
                    self.state[param]["step"] = _count(float(steps), param)

    def _update(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            group, fused = batch.group, batch.weights[0].device.type in _FUSED
            beta1, beta2 = group["betas"]
            steps = self._steps(batch)
            # An infinite number of steps makes both corrections 1.
            counted = steps if group["bias_correction"] else [torch.full_like(step, float("inf")) for step in steps]
            function = adamw if self.adam_w_mode else adam
            function(
                batch.weights,
                batch.grads,
                self._buffers(batch, "exp_avg"),
                self._buffers(batch, "exp_avg_sq"),
                [],
                counted,
                fused=fused,
                foreach=not fused,
                capturable=self.capturable,
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
            if getattr(self, "grad_scale", None) is not None:
                # The kernel unscales the gradients that it is given; scripts read the parameters' own.
                write([param.grad for param in batch.params if param.grad is not None], batch.grads)
            if counted is not steps:
                torch._foreach_add_(steps, 1)

    def _steps(self, batch: Batch) -> list[Tensor]:
        for param in batch.params:
            if "step" not in self.state[param]:
                self.state[param]["step"] = _count(0.0, param)
        return [self.state[param]["step"] for param in batch.params]


def _count(steps: float, param: Tensor) -> Tensor:
    # Where the fused kernel looks for it.
    device = param.device if param.device.type in _FUSED else None
    return torch.tensor(steps, dtype=torch.float32, device=device)
