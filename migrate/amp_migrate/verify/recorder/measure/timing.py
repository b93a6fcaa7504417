"""Timing runs: one stamp per optimizer step and nothing else, so that what is timed is the script."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..progress import Progress

_WARM_UP = 3  # steps after which memory counts as steady


class StepTimer:
    """Stamps every attempt at stepping the first optimizer; `write` turns the stamps into milliseconds."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._on_gpu = progress.device == "cuda"
        self._stamps: list[Any] = []
        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: self._stepping(optimizer))
        register_optimizer_step_post_hook(lambda optimizer, args, kwargs: self._stepped())

    def scaled(self) -> None:
        """A timing run records no losses."""

    def begin(self, optimizer: torch.optim.Optimizer, scaled: bool) -> None:
        """Start an attempt that a loss scaler makes."""
        self._progress.begin(optimizer, scaled)

    def end_scaled(self, scaler: Any, optimizer: torch.optim.Optimizer) -> None:
        """Finish it, stepped or skipped."""
        self._stamp()

    def updated(self, scaler: Any) -> None:
        """A timing run records no scale."""

    def _stepping(self, optimizer: torch.optim.Optimizer) -> None:
        if self._progress.current is None:
            self._progress.begin(optimizer, scaled=False)

    def _stepped(self) -> None:
        attempt = self._progress.current  # None in a step that called another, which has ended it
        if attempt is not None and not attempt.scaled:
            self._stamp()

    def _stamp(self) -> None:
        attempt = self._progress.current
        assert attempt is not None
        if attempt.optimizer == 0:
            self._stamps.append(self._now())
            if len(self._stamps) == _WARM_UP and self._on_gpu:
                torch.cuda.reset_peak_memory_stats()
        self._progress.end()

    def _now(self) -> Any:
        if not self._on_gpu:
            return time.perf_counter()
        event: Any = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def write(self) -> None:
        """Write the distances between the stamps, in milliseconds, as a `times` event."""
        if self._on_gpu:
            torch.cuda.synchronize()
        pairs = zip(self._stamps, self._stamps[1:], strict=False)
        distances = [a.elapsed_time(b) if self._on_gpu else (b - a) * 1e3 for a, b in pairs]
        self._progress.writer.put("times", milliseconds=distances)
