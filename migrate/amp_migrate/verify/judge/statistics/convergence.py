"""Tier 2: whole trainings over paired seeds. Does the migrated script end as the original would with other rounding?

Each seed is trained three times: by the original, by the migrated script, and by a twin that is the original with its
forward passes rounded to bfloat16. How far the twins end from the originals is the unit, and the margin so many of it.
A difference counts whichever way it goes. The margin is estimated from as few seeds as all else, so what is compared
with it is one of two limits: a lower one, below which the true margin hardly lies, to pass, and an upper one to fail.
The mean difference fails by its interval, which is wide where a fault does more to one seed than to another; so it
fails as well where nearly every seed lies beyond the upper limit, all on one side. Else more seeds are run, twice at
the most; and where the lower limit is so wide that a fifth of what training gains would pass, or a loss half as large
again, the question is left open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.statistics.interval import chi_square, half_interval, half_of
from amp_migrate.verify.recorded import metrics
from amp_migrate.verify.recorded.metrics import Metric
from amp_migrate.verify.runs.process import RunResult

LEVEL = 0.983  # per look, so that three looks together err in one case of twenty
SPREADS = 5.0
STRICT_SPREADS = 3.0
SMALLEST = 1e-6  # of the value: the rounding of float32
TOO_WEAK = 0.2  # of what the training gains: a margin as wide as this shows nothing
TOO_MUCH = 0.5  # of a loss itself: the same
FEWEST_PAIRS = 3
BY_CHANCE = 1 / 32  # how often so many seeds would lie beyond the limit on one side if half of all did

Pairs = Sequence[tuple[RunResult, RunResult]]


@dataclass(frozen=True)
class Tolerance:
    """How far apart counts as the same.

    Attributes:
        spreads: in units of what rounding does to the original.
        share: at least this share of the original's mean.
    """

    spreads: float = SPREADS
    share: float = 0.0


DEFAULT = Tolerance()


@dataclass(frozen=True)
class Convergence:
    """What paired seeds say of one metric.

    Attributes:
        n: pairs that count: all values are finite.
        original: the original's mean over the pairs, and `migrated` the migrated script's.
        difference: the mean difference, migrated less original.
        half: half the width of its interval.
        noise: root mean square of what rounding alone makes of the original.
        passes: the limit below which the whole interval must lie to pass.
        fails: the limit above which it must lie to fail.
        widest: the margin beyond which passing would say nothing: `TOO_WEAK` of what the training changes this metric
            by, or of its value where that is not known, and no more than `TOO_MUCH` of a loss that is
            always positive; but what the user tolerates.
        beyond: pairs whose own difference lies beyond the upper limit, on the side on which more do.
        lost: pairs in which only the migrated run has no finite value, less those in which only the original has none.
    """

    metric: Metric
    n: int
    original: float
    migrated: float
    difference: float
    half: float
    noise: float
    passes: float
    fails: float
    widest: float
    lost: int
    beyond: int = 0

    @property
    def weak(self) -> bool:
        """Whether the margin is so wide that passing would say nothing."""
        return not self.passes <= self.widest

    @property
    def apart(self) -> bool:
        """Whether nearly every seed differs, and the same way, by more than rounding could."""
        return self.beyond >= half_of(self.n, BY_CHANCE)

    @property
    def status(self) -> Status:
        """PASS, FAIL or INCONCLUSIVE."""
        if self.lost > 1:
            return Status.FAIL
        if self.n < FEWEST_PAIRS or self.lost > 0:
            return Status.INCONCLUSIVE
        if self.apart or abs(self.difference) - self.half > self.fails:
            return Status.FAIL
        inside = abs(self.difference) + self.half <= self.passes
        return Status.PASS if inside and not self.weak else Status.INCONCLUSIVE


def converged(pairs: Pairs, rounded: Sequence[RunResult], tolerance: Tolerance) -> tuple[Convergence, ...]:
    """Judge every primary metric of the original. `rounded`: the twin of each pair."""
    if not pairs:
        return ()
    wanted = metrics.primary(pairs[0][0])
    return tuple(judged(metric, pairs, rounded, tolerance, len(wanted)) for metric in wanted)


def judged(
    metric: Metric, pairs: Pairs, rounded: Sequence[RunResult], tolerance: Tolerance, tests: int = 1
) -> Convergence:
    """Judge one metric, one of so many that are tested."""
    values = [(_finite(a, metric), _finite(b, metric)) for a, b in pairs]
    both = [(a, b) for a, b in values if a is not None and b is not None]
    lost = sum((b is None) - (a is None) for a, b in values)
    originals = [a for a, _ in both]
    differences = [b - a for a, b in both]
    twins = [_finite(twin, metric) for twin in rounded]
    errors = [c - a for (a, _), c in zip(values, twins, strict=False) if a is not None and c is not None]
    mean = fmean(originals) if originals else math.nan
    noise = math.sqrt(fmean([error * error for error in errors])) if errors else math.nan
    unit = max(noise, SMALLEST * abs(mean)) if noise else math.nan  # a twin that rounds nothing is no measure
    least = tolerance.share * abs(mean)
    # Any of several metrics may fail: each gets its share of the error. To pass, all must pass.
    level = 1 - (1 - LEVEL) / tests
    fails = _largest(tolerance.spreads * unit * _factor(1 - level, len(errors)), least)
    return Convergence(
        metric=metric,
        n=len(both),
        original=mean,
        migrated=fmean([b for _, b in both]) if both else math.nan,
        difference=fmean(differences) if differences else math.nan,
        half=half_interval(differences, level),
        noise=noise,
        passes=_largest(tolerance.spreads * unit * _factor(LEVEL, len(errors)), least),
        fails=fails,
        widest=max(_widest(metric, pairs, originals), least),
        lost=lost,
        beyond=max(sum(side * each > fails for each in differences) for side in (1, -1)),
    )


def _factor(level: float, count: int) -> float:
    """What a root mean square of `count` values is multiplied by, to lie below the true one with this probability."""
    return math.sqrt(count / chi_square(level, count)) if count else math.nan


def _largest(limit: float, least: float) -> float:
    """The larger one; NaN, which nothing is below or above, only where neither is known."""
    return max(limit, least) if limit == limit else (least or math.nan)


def _widest(metric: Metric, pairs: Pairs, originals: Sequence[float]) -> float:
    mean = fmean(originals) if originals else math.nan
    if metric.part is None:
        return TOO_WEAK * abs(mean)
    finite = [head for original, _ in pairs if (head := _finite(original, metrics.ON_THE_WAY[0])) is not None]
    gained = TOO_WEAK * abs(fmean(finite) - mean) if finite else TOO_WEAK * abs(mean)
    return min(gained, TOO_MUCH * mean) if min(originals, default=0.0) > 0 else gained


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
    text = (
        f"{one.original:.4g} and {one.migrated:.4g} over {one.n} seeds: {one.difference:+.2g} with an interval of "
        f"{one.half:.2g} on either side; rounding makes {one.noise:.2g}, up to {one.passes:.2g} passes, and more than "
        f"{one.fails:.2g} fails"
    )
    if one.apart:
        text += f"; {one.beyond} of {one.n} seeds are beyond that, all on one side"
    if one.lost > 0:
        text += f"; {one.lost} migrated run{'s' if one.lost > 1 else ''} did not converge where the original's did"
    if one.weak and one.status is Status.INCONCLUSIVE:
        text += "; rounding alone moves this training so much that nothing could be seen"
    return text


def power(pairs: Sequence[tuple[RunResult, RunResult]], tolerance: Tolerance) -> list[str]:
    """What a comparison would see, a line for each metric, from (original, rounded) pairs of some first seeds."""
    told = []
    for metric in metrics.primary(pairs[0][0]) if pairs else ():
        known = [(_finite(a, metric), _finite(b, metric)) for a, b in pairs]
        errors = [b - a for a, b in known if a is not None and b is not None]
        if errors:
            noise = math.sqrt(fmean([error * error for error in errors]))
            value = fmean([a for a, _ in known if a is not None])
            share = tolerance.spreads * noise / abs(value) if value else math.inf
            told.append(f"{metric.name}: a change by about {share:.1%} or more would be told from rounding")
    return told
