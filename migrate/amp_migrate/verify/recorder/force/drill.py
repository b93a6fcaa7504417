"""An overflow that is planted: does the script's loss scaler leave the step out, whatever stands between?"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from ..progress import Progress
from ..record.objects import Objects

_ATTEMPT = 2  # the first that is spoiled: the scaler has had its first steps


def install(progress: Progress, objects: Objects) -> None:
    """Put an infinity into every gradient after a scaled backward pass, once; writes a `drill` event."""
    autograd: Any = torch.autograd
    backward = autograd.backward
    planted: list[int] = []

    @functools.wraps(backward)
    def spoiled(*args: Any, **kwargs: Any) -> Any:
        result = backward(*args, **kwargs)
        if not planted and progress.attempts >= _ATTEMPT and progress.loss_scaled:
            planted.append(progress.attempts)
            progress.zeroed = 0
            _plant(objects)
            progress.writer.put("drill", attempt=progress.attempts)
        return result

    autograd.backward = spoiled


def _plant(objects: Objects) -> None:
    for optimizer in objects.optimizers():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is not None and grad.layout is torch.strided and grad.numel():
                    grad[(0,) * grad.dim()] = math.inf
