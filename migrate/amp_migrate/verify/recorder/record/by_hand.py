"""Steps that a script makes by hand: it changes its weights itself, and makes no optimizer.

A backward pass then begins an attempt at a step, which ends where the next one begins, or the script ends. What lies
between is all that the step can be: clipping, the update, and zeroing gradients.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ..process.stop import StopRun
from .objects import Objects
from .steps import StepRecorder


class ByHand:
    """Stands for the optimizer of a script that has none."""

    def __init__(self, objects: Objects, steps: StepRecorder) -> None:
        self.param_groups: list[dict[str, Any]] = []
        self._objects = objects
        self._steps = steps
        self._has_optimizer = False
        self._inside = False

    def install(self) -> None:
        """Follow every backward pass, until the script makes an optimizer."""
        for holder in (torch.autograd, Tensor):  # a mode that counts is not in force in what `Tensor.backward` calls
            self._wrap(holder)

    def _wrap(self, holder: Any) -> None:
        backward = holder.backward

        @functools.wraps(backward)
        def stepped(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return backward(*args, **kwargs)
            self._steps.end_by_hand()
            self._inside = True
            try:
                result = backward(*args, **kwargs)
            finally:
                self._inside = False
            self._has_optimizer = self._has_optimizer or bool(self._objects.optimizers())
            if not self._has_optimizer:
                self._begin()
            return result

        holder.backward = stepped

    def close(self) -> None:
        """End the last step, where the script ends."""
        with suppress(StopRun):
            self._steps.end_by_hand()

    def _begin(self) -> None:
        if not self.param_groups:
            parameters = [each for model in self._objects.models() for each in model.parameters() if each.requires_grad]
            self.param_groups = [{"params": list(dict.fromkeys(parameters))}]
        self._steps.begin_by_hand(self)
