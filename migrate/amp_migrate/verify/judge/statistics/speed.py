"""Tier 3: step time and peak memory of interleaved runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from amp_migrate.verify.judge.statistics.interval import half_interval
from amp_migrate.verify.recorded.recording import Trace

WARM_UP_STEPS = 10
WARM_UP_SHARE = 0.1
NOISY_IQR = 0.25
TF32_CAPABILITY = (8, 0)  # the first compute capability that has TF32
CLAIMED = 1.03  # a gain is claimed only if the whole interval is above this


@dataclass(frozen=True)
class Speed:
    """How much faster the migrated script is.

    Attributes:
        ratio: original step time over migrated; above 1 is faster.
        low: lower end of the 95 % interval of the ratio, `high` its upper end; None for a single pair of runs.
        original_ms: median step time in milliseconds.
        iqr: the largest interquartile range of a run, as a share of its median.
    """

    ratio: float
    low: float | None
    high: float | None
    original_ms: float
    migrated_ms: float
    iqr: float

    @property
    def noisy(self) -> bool:
        """Whether the machine was too busy for any claim."""
        return self.iqr > NOISY_IQR


@dataclass(frozen=True)
class Memory:
    """Peak memory of both scripts in bytes, and what was counted."""

    original: int
    migrated: int
    kind: str

    @property
    def ratio(self) -> float:
        """Migrated over original; below 1 is less memory."""
        return self.migrated / self.original


def speed(pairs: Sequence[tuple[Trace, Trace]]) -> Speed | None:
    """Step times of (original, migrated) pairs of timing runs; None where no run was long enough."""
    steady = [(_steady(a.milliseconds), _steady(b.milliseconds)) for a, b in pairs]
    steady = [pair for pair in steady if all(len(times) >= 3 for times in pair)]
    if not steady:
        return None
    logs = [math.log(statistics.median(a) / statistics.median(b)) for a, b in steady]
    mean, half = statistics.fmean(logs), half_interval(logs)
    return Speed(
        ratio=math.exp(mean),
        low=math.exp(mean - half) if math.isfinite(half) else None,
        high=math.exp(mean + half) if math.isfinite(half) else None,
        original_ms=statistics.median(statistics.median(a) for a, _ in steady),
        migrated_ms=statistics.median(statistics.median(b) for _, b in steady),
        iqr=max(_iqr(times) for pair in steady for times in pair),
    )


def memory(pairs: Sequence[tuple[Trace, Trace]]) -> Memory | None:
    """Peak memory after warm-up, the median over pairs of timing runs on a GPU."""
    kind = "peak_allocated"
    counted = [(a.memory[kind], b.memory[kind]) for a, b in pairs if kind in a.memory and kind in b.memory]
    if not counted:
        return None
    return Memory(
        original=round(statistics.median(a for a, _ in counted)),
        migrated=round(statistics.median(b for _, b in counted)),
        kind=kind,
    )


def _steady(milliseconds: Sequence[float]) -> Sequence[float]:
    return milliseconds[max(WARM_UP_STEPS, math.ceil(WARM_UP_SHARE * len(milliseconds))) :]


def _iqr(times: Sequence[float]) -> float:
    quarter, median, three_quarters = statistics.quantiles(times, n=4)
    return (three_quarters - quarter) / median
