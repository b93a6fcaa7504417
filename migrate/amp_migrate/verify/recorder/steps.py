"""Optimizer steps: gradients before, updates after, and the time of each."""

from __future__ import annotations

import itertools
import time
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .progress import Attempt, Progress
from .scaler import found_inf

_UPDATES_RECORDED = 12  # attempts; each costs a copy of the parameters
_GRADIENTS_RECORDED = 128  # attempts; each reads all gradients. Only the first steps of an early window are compared


class StepRecorder:
    """Records a `step` event for every attempt at an optimizer step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._fields: dict[str, Any] = {}
        self._before: list[torch.Tensor] | None = None
        self._withheld: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._ordinals = itertools.count()
        self._scalers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Hook into every optimizer of the process."""
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._before_step(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._after_step(optimizer))

    def scaled(self) -> None:
        """From now on a step has to go through the scaler."""
        self._progress.loss_scaled = True

    def begin(self, optimizer: torch.optim.Optimizer, scaled: bool) -> Attempt:
        """Start an attempt: which parameters have gradients is known even if the step is then skipped."""
        attempt = self._progress.begin(optimizer, scaled)
        parameters = _parameters(optimizer)
        self._fields = {
            "index": attempt.index,
            "optimizer": attempt.optimizer,
            "class": type(optimizer).__name__,
            "backwards": self._progress.backwards,
            "grads": "".join("1" if p.grad is not None else "0" for p in parameters),
            "dtypes": sorted(str(dtype).removeprefix("torch.") for dtype in {p.dtype for p in parameters}),
            "clip_norm": self._progress.clip_norm,
            "autocast": self._progress.autocast_on(),
            "past_scaler": self._progress.loss_scaled and not scaled,
        }
        if scaled:
            self._progress.loss_scaled = False
        if attempt.index == 0 or self._progress.attempts <= _UPDATES_RECORDED:
            self._fields["shapes"] = [list(p.shape) for p in parameters]
        self._progress.clip_norm = None
        return attempt

    def end(self, infs: Any = 0.0) -> None:
        """Finish the attempt. `infs`: not 0 where a loss scaler met infs; a tensor is read later."""
        attempt = self._progress.current
        assert attempt is not None
        self._progress.writer.put(
            "step", **self._fields, stepped=attempt.stepped, found_inf=infs, time=time.perf_counter()
        )
        self._progress.end()

    def end_scaled(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """Finish an attempt that a native loss scaler made."""
        self.end(found_inf(scaler, optimizer))

    def updated(self, scaler: Any) -> None:
        """Record the scale after an update."""
        if scaler not in self._scalers:
            self._scalers[scaler] = next(self._ordinals)
        self._progress.writer.put(
            "scale",
            attempt=self._progress.attempts,
            scaler=self._scalers[scaler],
            scale=scaler._scale.detach().clone(),
        )

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        attempt = self._progress.current or self.begin(optimizer, scaled=False)
        attempt.stepped = True
        if self._progress.spec.profile:  # nothing of ours belongs into a profile
            return
        parameters = _parameters(optimizer)
        if attempt.index in self._progress.spec.skips:
            self._withhold_gradients(parameters)
            attempt.stepped = False
        if attempt.index < _GRADIENTS_RECORDED:
            norm = _norm([p.grad for p in parameters if p.grad is not None])
            scale = getattr(optimizer, "grad_scale", None)  # set for fused optimizers, which unscale by themselves
            self._fields["grad_norm"] = norm / scale if norm is not None and isinstance(scale, torch.Tensor) else norm
        if attempt.index < _UPDATES_RECORDED:
            self._before = [p.detach().clone() for p in parameters]

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        attempt = self._progress.current
        if attempt is None:  # a step within a step: an optimizer that wraps another
            return
        if self._before is not None:
            pairs = zip(_parameters(optimizer), self._before, strict=True)
            self._fields["update_norm"] = _norm([p.detach() - before for p, before in pairs])
            self._before = None
        for parameter, gradient in self._withheld:
            parameter.grad = gradient
        self._withheld = []
        if not attempt.scaled:
            self.end(infs=0.0 if attempt.stepped else 1.0)

    def _withhold_gradients(self, parameters: list[torch.Tensor]) -> None:
        """Leave the step out as a loss scaler would: an optimizer does nothing for a parameter without a gradient."""
        for parameter in parameters:
            if parameter.grad is not None:
                self._withheld.append((parameter, parameter.grad))
                parameter.grad = None


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _norm(tensors: list[torch.Tensor]) -> torch.Tensor | None:
    """The 2-norm of all elements together, in float32; None where there are none."""
    dense = [t.coalesce().values() if t.is_sparse else t for t in tensors]
    if not dense:
        return None
    with torch.no_grad():
        norms = torch._foreach_norm(dense, 2, dtype=torch.float32)
        total: torch.Tensor = torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
        return total
