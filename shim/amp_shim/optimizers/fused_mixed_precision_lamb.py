"""LAMB that keeps float32 masters of half parameters and takes scaled gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from amp_shim.optimizers.base import Batch, Params
from amp_shim.optimizers.fused_lamb import FusedLAMB


class FusedMixedPrecisionLamb(FusedLAMB):
    """`FusedLAMB` for models in half, stepped by a native GradScaler: `scaler.step(optimizer)`.

    Args:
        step: the number of steps that were made before.
        reduced_precision_dtype: parameters of this type get float32 masters, made at the first step.
        lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode, grad_averaging, max_grad_norm, use_nvlamb:
            as in `FusedLAMB`.

    Raises RuntimeError for `amsgrad`.
    """

    # Read by GradScaler: it hands over its scale and its flag as attributes, and lets gradients be half.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        step: int = 0,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
        reduced_precision_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            params, lr, bias_correction, betas, eps, weight_decay, amsgrad, adam_w_mode, grad_averaging,
            max_grad_norm=max_grad_norm, use_nvlamb=use_nvlamb,
        )  # fmt: skip
        self.reduced_precision_dtype = reduced_precision_dtype
        for group in self.param_groups:
            group["step"] = step

    @property
    def reduced_precision_dtype(self) -> torch.dtype | None:
        """The type of the parameters that get masters; may be assigned before the first step."""
        return self._mastered[0] if self._mastered else None

    @reduced_precision_dtype.setter
    def reduced_precision_dtype(self, dtype: torch.dtype | None) -> None:
        self._mastered = () if dtype is None else (dtype,)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, unless the scaler that steps this optimizer found an inf or a NaN.

        Waits for the device once under a scaler, as GradScaler itself does.
        """
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and found_inf.item():
            return None
        return super().step(closure)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state. In Apex's checkpoints `lr` and `step` are tensors."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            group["lr"], group["step"] = float(group["lr"]), int(group["step"])

    def _update(self, batches: Sequence[Batch]) -> None:
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            batches = [replace(b, grads=_divided(b.grads, scale.to(b.grads[0].device))) for b in batches]
        super()._update(batches)


def _divided(grads: list[torch.Tensor], scale: torch.Tensor) -> list[torch.Tensor]:
    return list(torch._foreach_div(grads, scale))
