"""Tier 2: whole trainings over paired seeds. Does the migrated script end as well as the original?

Both scripts train once per seed, and the differences are paired. The margin is twice the spread of the original over
its seeds, five of which have no migrated twin. The one-sided interval of the mean difference lies below the margin
(PASS), above it (FAIL) or across it (INCONCLUSIVE: more seeds are run, twice at the most).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.interval import half_interval
from amp_migrate.verify.recorded import metrics
from amp_migrate.verify.recorded.metrics import Metric
from amp_migrate.verify.runs.process import RunResult

EXTRA_SEEDS = 5
LEVEL = 0.983  # per look, so that three looks together err in one case of twenty
SPREADS = 2.0
STRICT_SPREADS = 1.0
SMALLEST_SPREAD = 0.002  # of the value: what repeats better than this is not told apart
FEWEST_PAIRS = 3

Pairs = Sequence[tuple[RunResult, RunResult]]


@dataclass(frozen=True)
class Tolerance:
    """How much worse counts as the same.

    Attributes:
        spreads: in standard deviations of the original over its seeds.
        share: at least this share of the original's mean.
    """

    spreads: float = SPREADS
    share: float = 0.0


DEFAULT = Tolerance()


@dataclass(frozen=True)
class Convergence:
    """What paired seeds say of one metric; differences are positive where the migrated script is worse.

    Attributes:
        n: pairs that count: both values are finite.
        original: the original's mean over the pairs, and `migrated` the migrated script's.
        low, high: ends of the one-sided intervals of the mean difference.
        sigma: the original's spread over all its seeds.
        lost: pairs in which only the migrated run has no finite value, less those in which only the original has none.
    """

    metric: Metric
    n: int
    original: float
    migrated: float
    difference: float
    low: float
    high: float
    sigma: float
    margin: float
    lost: int

    @property
    def status(self) -> Status:
        """PASS, FAIL, INCONCLUSIVE; WARN where the migrated script is better by more than the margin."""
        if self.lost > 1:
            return Status.FAIL
        if self.n < FEWEST_PAIRS or self.lost > 0:
            return Status.INCONCLUSIVE
        if self.low > self.margin:
            return Status.FAIL
        if self.high >= self.margin:
            return Status.INCONCLUSIVE
        return Status.WARN if self.difference < -self.margin else Status.PASS


def converged(pairs: Pairs, extra: Sequence[RunResult], tolerance: Tolerance) -> tuple[Convergence, ...]:
    """Judge every primary metric of the original."""
    if not pairs:
        return ()
    wanted = metrics.primary(pairs[0][0])
    return tuple(_judged(metric, pairs, extra, tolerance, len(wanted)) for metric in wanted)


def _judged(metric: Metric, pairs: Pairs, extra: Sequence[RunResult], tolerance: Tolerance, tests: int) -> Convergence:
    values = [(_finite(a, metric), _finite(b, metric)) for a, b in pairs]
    both = [(a, b) for a, b in values if a is not None and b is not None]
    lost = sum((b is None) - (a is None) for a, b in values)
    sign = -1.0 if metric.higher_is_better else 1.0
    alone = [value for result in extra if (value := _finite(result, metric)) is not None]
    originals = [a for a, _ in both]
    differences = [sign * (b - a) for a, b in both]
    mean = fmean(originals) if originals else math.nan
    spread = stdev([*originals, *alone]) if len(originals) + len(alone) > 1 else 0.0
    sigma = max(spread, SMALLEST_SPREAD * abs(mean))
    difference = fmean(differences) if differences else math.nan
    return Convergence(
        metric=metric,
        n=len(both),
        original=mean,
        migrated=fmean([b for _, b in both]) if both else math.nan,
        difference=difference,
        # Any of several metrics may fail: each gets its share of the error. To pass, all must pass.
        low=difference - half_interval(differences, 1 - (1 - LEVEL) / tests),
        high=difference + half_interval(differences, LEVEL),
        sigma=sigma,
        margin=max(tolerance.spreads * sigma, tolerance.share * abs(mean)),
        lost=lost,
    )


def _finite(result: RunResult, metric: Metric) -> float | None:
    value = metrics.value(result, metric)
    return value if value is not None and math.isfinite(value) else None


def checks(found: Sequence[Convergence]) -> list[Check]:
    """C: a line per metric."""
    if not found:
        reason = "no loss and no metric was seen in the whole trainings"
        return [Check("C", "whole trainings end alike", Status.INCONCLUSIVE, reason)]
    return [Check("C", f"{one.metric.name} of whole trainings", one.status, _detail(one)) for one in found]


def _detail(one: Convergence) -> str:
    if one.n < 2:
        return f"{one.n} of the pairs have finite values"
    side = "better" if one.difference < 0 else "worse"
    text = (
        f"{one.original:.4g} and {one.migrated:.4g} over {one.n} seeds: {abs(one.difference):.2g} {side}, "
        f"at most {one.high:.2g} worse, margin {one.margin:.2g}"
    )
    if one.lost > 0:
        text += f"; {one.lost} migrated run{'s' if one.lost > 1 else ''} did not converge where the original's did"
    if one.status is Status.WARN:
        text += "; so much better is rarely right: look at evaluation and data"
    return text
