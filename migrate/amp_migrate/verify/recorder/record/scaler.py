"""Loss scaling: what native `GradScaler` scales, skips and updates."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch

from .losses import mark_scaled


class Steps(Protocol):
    """Who is told of the steps that a loss scaler makes."""

    def scaled(self) -> None:
        """The scaler has scaled a loss."""

    def begin(self, optimizer: torch.optim.Optimizer, scaled: bool) -> object:
        """The scaler is about to step `optimizer`."""

    def end_scaled(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """It has, or has left it out; `found_inf(scaler, optimizer)` tells."""

    def updated(self, scaler: Any) -> None:
        """The scaler has moved its scale, or kept it."""


def install(steps: Steps) -> None:
    """Follow every GradScaler of the process."""
    scaler: Any = torch.amp.GradScaler
    scale, step, update = scaler.scale, scaler.step, scaler.update

    @functools.wraps(scale)
    def recorded_scale(self: Any, outputs: Any) -> Any:
        scaled = scale(self, outputs)
        mark_scaled(scaled, outputs)
        if self.is_enabled():
            steps.scaled()
        return scaled

    @functools.wraps(step)
    def recorded_step(self: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not self.is_enabled():
            return step(self, optimizer, *args, **kwargs)
        steps.begin(optimizer, scaled=True)
        result = step(self, optimizer, *args, **kwargs)
        steps.end_scaled(self, optimizer)
        return result

    @functools.wraps(update)
    def recorded_update(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = update(self, *args, **kwargs)
        if self.is_enabled() and self._scale is not None:
            steps.updated(self)
        return result

    scaler.scale, scaler.step, scaler.update = recorded_scale, recorded_step, recorded_update


def found_inf(scaler: Any, optimizer: torch.optim.Optimizer) -> Any:
    """The scaler's own verdict on the gradients, summed over devices: not 0 means that the step was skipped.

    Asked only for an optimizer that unscales by itself: any other is not called for a step that is skipped.
    """
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return 0.0
    per_device = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
    return sum(per_device.values()) if per_device else 0.0
