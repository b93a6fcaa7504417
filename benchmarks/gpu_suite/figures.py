"""What the measured trainings say about an arm: times, ratios, memory, and what was learnt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from amp_migrate.verify.judge.statistics.interval import half_interval

from gpu_suite.arms import BY_HAND, MIGRATED, PLAIN

Row = Mapping[str, Any]
# What is wanted of a migrated script; the ratios to float32 are those of a ResNet-18.
NEAR_BY_HAND, SPEEDUP, MEMORY = 0.01, 2.3, 0.60
LEARNT = ("accuracy", "validation loss")


@dataclass(frozen=True)
class Value:
    """A mean, and how far it may be off: half of its 95 % interval over the seeds, infinite for a single one."""

    mean: float
    half: float

    def __str__(self) -> str:
        if math.isinf(self.half):
            return f"{self.mean:.3g}"
        digits = max(0, 2 - math.floor(math.log10(abs(self.mean)))) if self.mean else 2
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}"


@dataclass(frozen=True)
class Figure:
    """One arm of one workload.

    Attributes:
        seeds: how many trainings it was measured in.
        ms: milliseconds per step.
        speedup: step time in float32 over this arm's, paired by seed; None where float32 was not measured.
        by_hand: step time of hand-written mixed precision over this arm's.
        gpu_ms: milliseconds that a step's kernels take on the GPU, whatever the processor does; kernels that run side
            by side count each. None where it was not read.
        kernels: how many a step launches.
        gpu_speedup, gpu_by_hand: `speedup` and `by_hand` of that time.
        peak: peak memory in MiB; None where there is no GPU.
        memory: peak memory over that in float32.
        learnt: accuracy, or validation loss, after the same number of steps.
        error: why there is nothing else.
    """

    workload: str
    arm: str
    seeds: int
    ms: Value | None = None
    speedup: Value | None = None
    by_hand: Value | None = None
    gpu_ms: Value | None = None
    kernels: float | None = None
    gpu_speedup: Value | None = None
    gpu_by_hand: Value | None = None
    peak: float | None = None
    memory: float | None = None
    loss: Value | None = None
    learnt: Value | None = None
    error: str = ""


def figures(rows: Sequence[Row]) -> list[Figure]:
    """One for each workload and arm, in the order in which they were first measured."""
    pairs = dict.fromkeys((row["workload"], row["arm"]) for row in rows)
    order = {workload: index for index, (workload, _) in reversed(list(enumerate(pairs)))}
    return [_figure(rows, *pair) for pair in sorted(pairs, key=lambda pair: order[pair[0]])]


def _figure(rows: Sequence[Row], workload: str, arm: str) -> Figure:
    mine, plain, by_hand = (_by_seed(rows, workload, name) for name in (arm, PLAIN, BY_HAND))
    if not mine:
        errors = [row["error"] for row in rows if (row["workload"], row["arm"]) == (workload, arm)]
        return Figure(workload, arm, 0, error=errors[0])
    one = next(iter(mine.values()))
    learnt = next(name for name in LEARNT if name in one)
    peak, plain_peak = _peak(mine), _peak(plain)
    on_gpu = [row["gpu_ms"] for row in mine.values() if row.get("gpu_ms")]
    return Figure(
        workload,
        arm,
        len(mine),
        ms=value_of([row["ms"] for row in mine.values()]),
        speedup=_ratio(plain, mine),
        by_hand=_ratio(by_hand, mine),
        gpu_ms=value_of(on_gpu) if on_gpu else None,
        kernels=one.get("kernels"),
        gpu_speedup=_ratio(plain, mine, "gpu_ms"),
        gpu_by_hand=_ratio(by_hand, mine, "gpu_ms"),
        peak=peak,
        memory=peak / plain_peak if peak and plain_peak else None,
        loss=value_of([row["loss"] for row in mine.values()]),
        learnt=value_of([row[learnt] for row in mine.values()]),
    )


def _by_seed(rows: Sequence[Row], workload: str, arm: str) -> dict[int, Row]:
    return {row["seed"]: row for row in rows if (row["workload"], row["arm"]) == (workload, arm) and "error" not in row}


def value_of(values: Sequence[float]) -> Value:
    """The mean of some values, with half of its 95 % interval."""
    return Value(fmean(values), half_interval(values))


def _ratio(others: Mapping[int, Row], mine: Mapping[int, Row], time: str = "ms") -> Value | None:
    pairs = [(others[seed].get(time), mine[seed].get(time)) for seed in mine if seed in others]
    logs = [math.log(other / own) for other, own in pairs if other and own]
    if not logs:
        return None
    ratio = math.exp(fmean(logs))
    return Value(ratio, ratio * math.expm1(half_interval(logs)) if len(logs) > 1 else math.inf)


def _peak(rows: Mapping[int, Row]) -> float | None:
    peaks = [row["peak"] / 2**20 for row in rows.values() if row["peak"] is not None]
    return max(peaks) if peaks else None


def shortfalls(rows: Sequence[Row], kernels: Sequence[Row] = ()) -> list[str]:
    """Where the migrated scripts are not what is wanted, one sentence each.

    Args:
        rows: of the measured trainings.
        kernels: of trainings in which the time on the GPU was read. It is the same on every machine, which the time of
            a step of some milliseconds is not: against hand-written scripts, it decides.
    """
    on_gpu = {figure.workload: figure.gpu_by_hand for figure in figures(kernels) if figure.arm == MIGRATED}
    found: list[str] = []
    for figure in figures(rows):
        if figure.arm != MIGRATED:
            continue
        name = figure.workload
        if figure.ms is None:
            found.append(f"{name}: {figure.error}")
            continue
        near = on_gpu.get(name) or figure.by_hand
        if near is not None and near.mean < 1 - NEAR_BY_HAND:
            found.append(f"{name}: {1 - near.mean:.1%} slower than hand-written")
        if name.startswith("ResNet-18"):
            if figure.speedup is not None and figure.speedup.mean < SPEEDUP:
                found.append(f"{name}: {figure.speedup.mean:.2f} times as fast as float32, wanted {SPEEDUP}")
            if figure.memory is not None and figure.memory > MEMORY:
                found.append(f"{name}: {figure.memory:.2f} of float32's memory, wanted {MEMORY:.2f}")
        if not learns_alike(rows, name):
            found.append(f"{name}: what is learnt differs by more than the seeds of float32 do")
    return found


def same_losses(rows: Sequence[Row]) -> tuple[int, int]:
    """How many trainings, migrated and hand-written, end in the same loss to the bit, and of how many."""
    pairs = [
        (mine[seed]["loss"], by_hand[seed]["loss"])
        for workload in dict.fromkeys(row["workload"] for row in rows)
        for mine, by_hand in [[_by_seed(rows, workload, arm) for arm in (MIGRATED, BY_HAND)]]
        for seed in mine.keys() & by_hand.keys()
    ]
    return sum(mine == by_hand for mine, by_hand in pairs), len(pairs)


def learns_alike(rows: Sequence[Row], workload: str) -> bool:
    """Whether the migrated script's mean differs from float32's by no more than float32's seeds differ."""
    plain, mine = (_by_seed(rows, workload, name) for name in (PLAIN, MIGRATED))
    seeds = plain.keys() & mine.keys()
    if len(seeds) < 2:
        return True  # nothing to tell noise by
    learnt = next(name for name in LEARNT if name in plain[min(seeds)])
    values: list[float] = [plain[seed][learnt] for seed in seeds]
    difference = fmean(mine[seed][learnt] - plain[seed][learnt] for seed in seeds)
    return abs(difference) <= max(values) - min(values)
