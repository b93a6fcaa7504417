"""Loss scaling by Apex's rules: one scale per loss, updated at every backward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_INIT_SCALE = 2.0**16
_GROWTH_INTERVAL = 2000


class LossScaler:
    """A loss scale, the test for overflow, and the counter of clean passes.

    A dynamic scale starts at 2^16 (or the maximum, if lower), halves on overflow and doubles after 2000 clean backward
    passes in a row. A static one never changes, and its gradients are not checked, as in Apex.

    Args:
        loss_scale: "dynamic" or the constant scale.
        min_loss_scale: floor of a dynamic scale; None or 0 for none.
        max_loss_scale: ceiling of a dynamic scale.
    """

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = _INIT_SCALE,
        scale_factor: float = 2.0,
        scale_window: int = _GROWTH_INTERVAL,
        min_loss_scale: float | None = None,
        max_loss_scale: float = 2.0**24,
    ) -> None:
        self.dynamic = loss_scale == "dynamic"
        self._loss_scale = min(max_loss_scale, init_scale) if self.dynamic else float(loss_scale)
        self._scale_factor = scale_factor
        self._scale_seq_len = scale_window
        self._min_loss_scale = min_loss_scale
        self._max_loss_scale = max_loss_scale
        self._unskipped = 0
        self._has_overflow = False
        self._found_inf: dict[torch.device, Tensor] = {}

    def loss_scale(self) -> float:
        """The current scale."""
        return self._loss_scale

    def unscale_(self, grads: Sequence[Tensor]) -> None:
        """Divide gradients by the scale in place and note whether one holds an inf or a NaN.

        Multi-tensor, and without waiting for the device. The gradients may be float32 or half.
        """
        if not self.dynamic:
            if grads and self._loss_scale != 1.0:
                torch._foreach_mul_(list(grads), 1.0 / self._loss_scale)
            return
        for (device, _), group in _by_kind(grads).items():
            if device not in self._found_inf:
                self._found_inf[device] = torch.zeros(1, device=device)
            inv_scale = torch.full((1,), 1.0 / self._loss_scale, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(group, self._found_inf[device], inv_scale)

    def clear_overflow_state(self) -> None:
        """Forget the overflows of the pass before."""
        self._has_overflow = False
        self._found_inf.clear()

    def update_scale(self) -> bool:
        """Move the scale after a backward pass; True if the step must be skipped.

        Waits for the device once: this is where the overflow flag reaches the host.
        """
        self._has_overflow = self._has_overflow or any(bool(flag.item()) for flag in self._found_inf.values())
        if self._has_overflow and self.dynamic:
            self._loss_scale = max(self._min_loss_scale or 0.0, self._loss_scale / self._scale_factor)
            self._unskipped = 0
            return True
        self._unskipped += 1
        if self.dynamic and self._unskipped == self._scale_seq_len:
            self._loss_scale = min(self._max_loss_scale, self._loss_scale * self._scale_factor)
            self._unskipped = 0
        return False


def _by_kind(grads: Sequence[Tensor]) -> dict[tuple[torch.device, torch.dtype], list[Tensor]]:
    # The multi-tensor kernel takes tensors of one device and one dtype.
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for grad in grads:
        groups.setdefault((grad.device, grad.dtype), []).append(grad)
    return groups
