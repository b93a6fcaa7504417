"""Norms of gradients and of parameter updates, in the first steps of every optimizer: no others are compared.

Each costs a pass over all parameters. None waits for a GPU.
"""

from __future__ import annotations

from collections import Counter

import torch

from ..progress import Attempt
from ..spec import NORM_STEPS

# An optimizer that unscales by itself is called for steps that it leaves out, too, while the scale finds its level.
_CALIBRATION = 20


class Norms:
    """Takes the norms of one step after another."""

    def __init__(self) -> None:
        self._taken: Counter[int] = Counter()
        self._counted: Attempt | None = None
        self._before: list[torch.Tensor] = []

    def wanted(self, attempt: Attempt, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this step, which the optimizer is about to make, is among the first."""
        enough = NORM_STEPS + (_CALIBRATION if _scale(optimizer) is not None else 0)
        if attempt is not self._counted:  # an optimizer that wraps another steps twice in one attempt
            self._counted = attempt
            self._taken[attempt.optimizer] += 1
        return self._taken[attempt.optimizer] <= enough

    @property
    def under_way(self) -> bool:
        """Whether a step has begun whose norms are wanted."""
        return bool(self._before)

    def before(self, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> torch.Tensor | None:
        """The norm of the gradients, unscaled."""
        self._before = [p.detach().clone() for p in parameters]
        norm = norm_of([p.grad for p in parameters if p.grad is not None])
        scale = _scale(optimizer)
        return norm if norm is None or scale is None else norm / scale

    def after(self, parameters: list[torch.Tensor]) -> torch.Tensor | None:
        """The norm of what the step has changed."""
        before, self._before = self._before, []
        return norm_of(list(torch._foreach_sub([p.detach() for p in parameters], before)))


def norm_of(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """The 2-norm of all elements together, in float32; None where there are none."""
    dense = [t.coalesce().values() if t.is_sparse else t for t in tensors]
    if not dense:
        return None
    with torch.no_grad():
        norms = torch._foreach_norm(dense, 2, dtype=torch.float32)
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
        return total


def _scale(optimizer: torch.optim.Optimizer) -> torch.Tensor | None:
    """The loss scale that GradScaler gives to an optimizer that unscales by itself."""
    scale = getattr(optimizer, "grad_scale", None)
    return scale if isinstance(scale, torch.Tensor) else None
