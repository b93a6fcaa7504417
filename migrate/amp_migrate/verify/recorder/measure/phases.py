"""Where the time of a step goes: waiting for data, going backward, stepping the optimizer, and the rest.

On a GPU each of them ends by waiting for it, so that what is measured is what was done in it; steps take longer so.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.data.dataloader
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..progress import Progress


class Phases:
    """Adds up seconds by phase between the steps of the first optimizer; `write` gives a `phases` event."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._steps: list[dict[str, float]] = []
        self._now: dict[str, float] = {}
        self._began = self._step_began = self._clock()
        self._first: object = None
        self._depth = 0  # an optimizer's step may call that of the class it is made from

    def install(self) -> None:
        """Follow data loaders, backward passes and optimizers."""
        iterator: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        iterator.__next__ = self._timed("data", iterator.__next__)
        autograd: Any = torch.autograd
        autograd.backward = self._timed("backward", autograd.backward)
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._before_step(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._after_step(optimizer))

    def write(self) -> None:
        """Write the milliseconds of each step, by phase."""
        self._progress.writer.put("phases", steps=self._steps)

    def _timed(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = self._clock()
            try:
                return call(*args, **kwargs)
            finally:
                self._add(phase, began)

        return timed

    def _before_step(self, optimizer: object) -> None:
        if self._first is None:
            self._first = optimizer
        if self._depth == 0:
            self._step_began = self._clock()
        self._depth += 1

    def _after_step(self, optimizer: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._add("optimizer", self._step_began)
            if optimizer is self._first:
                self._next()

    def _add(self, phase: str, began: float) -> None:
        self._now[phase] = self._now.get(phase, 0.0) + (self._clock() - began) * 1e3

    def _next(self) -> None:
        ended = self._clock()
        self._steps.append({**self._now, "step": (ended - self._began) * 1e3})
        self._now, self._began = {}, ended

    def _clock(self) -> float:
        if self._progress.device == "cuda" and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return time.perf_counter()
