"""What the hooks share: where the run stands, and the attempt at an optimizer step that is under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .process.stop import StopRun, leave
from .spec import EARLY_STEPS, RecorderSpec
from .writer import Writer

_LOOKED_AT = 64
_SAMPLED = 17  # a prime: whatever a script does in turns has its turn


def is_looked_at(number: int) -> bool:
    """Whether the step or the backward pass of that number is looked at closely, at what hardly ever changes.

    All of the first are, and then one now and then: looking takes longer than all else that is recorded.
    """
    return number < _LOOKED_AT or number % _SAMPLED == 0


def is_sampled(number: int) -> bool:
    """Whether the attempt of that number is looked at at great cost: the first three, a few more, ever fewer."""
    if number < 3:
        return True
    return number % (5 if number < 60 else _SAMPLED * max(1, number // 200)) == 0


@dataclass
class Attempt:
    """One call that is to step an optimizer; a loss scaler that met infs makes nothing of it."""

    index: int
    optimizer: int
    stepped: bool = False
    scaled: bool = False  # called through a loss scaler, which ends the attempt


@dataclass
class Progress:
    """Counters of one run. Attempts are counted over all optimizers, and per optimizer."""

    spec: RecorderSpec
    writer: Writer
    device: str  # the autocast device type that the script's tensors are on
    backwards: int = 0
    attempts: int = 0
    current: Attempt | None = None
    clip_norm: tuple[Any, float] | None = None  # the gradient norm that the last clipping call saw, and its limit
    lost: str = ""  # why nothing further could change the verdict
    zeroed: int = 0  # calls that zeroed gradients since the last attempt
    loss_scaled: bool = False  # by a native scaler, which has not made a step since
    after_attempt: list[Callable[[], None]] = field(default_factory=list)
    at_first_backward: list[Callable[[], None]] = field(default_factory=list)  # since the last attempt
    at_save: list[Callable[[], None]] = field(default_factory=list)  # of an optimizer
    _began: float = 0.0
    _goes_backward: bool = False
    _stopped: bool = False
    _ordinals: dict[int, int] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def begin_backward(self) -> None:
        """A backward pass is about to begin."""
        if not self._goes_backward:
            self._goes_backward = True
            for call in self.at_first_backward:
                call()

    def begin(self, optimizer: torch.optim.Optimizer, scaled: bool) -> Attempt:
        """Start an attempt at stepping `optimizer`; ends the process where the script has caught the run's end."""
        if self._stopped:
            leave()
        self._began = self._began or time.monotonic()
        ordinal = self._ordinals.setdefault(id(optimizer), len(self._ordinals))
        self.current = Attempt(self.attempts, ordinal, scaled=scaled)
        self.attempts += 1
        self._counts[ordinal] = self._counts.get(ordinal, 0) + 1
        return self.current

    def attempts_of(self, optimizer: int) -> int:
        """How many attempts at stepping one optimizer have begun."""
        return self._counts[optimizer]

    def end(self) -> None:
        """Finish the attempt; raises StopRun once one optimizer has made the steps that were asked for."""
        self.current = None
        self._goes_backward = False
        if not self.spec.timing:
            self.writer.stepped()
        for call in self.after_attempt:
            call()
        if self._is_enough(max(self._counts.values())):
            self._stopped = True
            self.writer.put("stopped", lost=self.lost)
            self.writer.flush()
            raise StopRun

    def _is_enough(self, steps: int) -> bool:
        spec = self.spec
        if self.lost:
            return True
        if spec.seconds and steps >= EARLY_STEPS and time.monotonic() - self._began > spec.seconds:
            return True
        return 0 < spec.steps <= steps

    def autocast_on(self) -> bool:
        """Whether autocast is on, for the device that the script's tensors are on."""
        return torch.is_autocast_enabled(self.device)
