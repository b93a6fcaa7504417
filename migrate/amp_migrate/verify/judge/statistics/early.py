"""Tier 1: losses and norms of the first steps, against the noise that rounding makes in the user's own script.

Rounding the original's forward passes to bfloat16 gives a run that is right by construction. How far its losses are
from the original's, at each backward pass or before, is the noise there: small at first, when the weights are the same,
and large where training is chaotic. S is the root mean square of the migrated run's differences, each in units of the
noise of its pass, so that late passes do not hide early ones. N looks at the gradient and update norms of the first
steps, which tell a scaling fault that adaptive optimizers hide from the losses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.recorded.recording import Step, Trace
from amp_migrate.verify.recorder.spec import NORM_STEPS

WINDOW_STEPS = 20
FLOOR_FACTOR = 3.0
CERTAIN_FACTOR = 10.0  # beyond this multiple of the bound no second seed is asked
SMALLEST_LOSS = 1e-3  # of the first loss: relative differences below it would be noise about zero
SMALLEST_NOISE = 1e-6  # the rounding of float32 itself
POOLED = 3  # passes of each optimizer whose noise is taken together: a single one may be small by chance
NORM_TOLERANCE = 0.02
SMALLEST_NORM = 1e-4  # of an optimizer's largest: a step that small makes nothing beside the others, and tells nothing


@dataclass(frozen=True)
class Window:
    """The early window of one pair of runs: the relative loss difference at each backward pass, and their RMS."""

    differences: tuple[float, ...]

    @property
    def s(self) -> float:
        """Root mean square; infinite where a loss is missing or not finite."""
        if not self.differences:
            return 0.0
        return math.sqrt(sum(d * d for d in self.differences) / len(self.differences))


def window(reference: Trace, other: Trace) -> Window:
    """Compare the losses of two runs over the first steps of every optimizer."""
    optimizers = len({step.optimizer for step in reference.steps}) or 1
    within = [b.attempt < WINDOW_STEPS * optimizers for b in reference.backwards]
    pairs = zip(reference.losses, other.losses, strict=False)
    kept = [pair for pair, keep in zip(pairs, within, strict=False) if keep]
    floor = SMALLEST_LOSS * abs(reference.losses[0]) if reference.losses else 0.0
    return Window(tuple(_relative(a, b, floor) for a, b in kept))


def _relative(reference: float, other: float, floor: float) -> float:
    if reference == other or (math.isnan(reference) and math.isnan(other)):
        return 0.0
    scale = max(abs(reference), floor)
    difference = abs(other - reference) / scale if scale else math.inf
    return difference if math.isfinite(difference) else math.inf


def noise(floors: Sequence[Window], optimizers: int = 1) -> tuple[float, ...]:
    """How far rounding alone puts the loss of each pass; ends before the first pass that rounding makes infinite."""
    if not any(difference for floor in floors for difference in floor.differences):
        return ()
    largest = [max(each) for each in zip(*(floor.differences for floor in floors), strict=False)]
    finite = list(takewhile(math.isfinite, largest))
    head = max(finite[: POOLED * optimizers], default=0.0)
    return tuple(max(head, each, SMALLEST_NOISE) for each in accumulate(finite, max))


def in_noise(one: Window, around: Sequence[float]) -> float:
    """S: the root mean square of a window's differences, in units of the noise around them."""
    units = [difference / unit for difference, unit in zip(one.differences, around, strict=False)]
    return math.sqrt(sum(unit * unit for unit in units) / len(units)) if units else 0.0


def losses_check(seen: Sequence[Window], around: Sequence[float]) -> Check:
    """S: the early losses stay within the bound; in doubt, in most of the seeds that were run."""
    title = "early losses within the noise floor"
    if not around:
        reason = "no noise floor: rounding the original's forward passes changed nothing or failed"
        return Check("S", title, Status.NOT_ASSESSED, reason)
    values = [in_noise(one, around) for one in seen]
    first = values[0]
    farthest = max((d for d, _ in zip(seen[0].differences, around, strict=False)), default=0.0)
    detail = f"S = {first:.2g} times the noise, bound {FLOOR_FACTOR:g}; losses up to {farthest:.1e} apart"
    if first <= FLOOR_FACTOR:
        return Check("S", title, Status.PASS, detail)
    if first > CERTAIN_FACTOR * FLOOR_FACTOR:
        return Check("S", title, Status.FAIL, detail)
    if len(values) == 1:
        return Check("S", title, Status.INCONCLUSIVE, detail + "; no further seed could be run")
    within = sum(value <= FLOOR_FACTOR for value in values)
    detail += f"; {within} of {len(values)} seeds within"
    return Check("S", title, Status.PASS if 2 * within > len(values) else Status.FAIL, detail)


def in_doubt(seen: Sequence[Window], around: Sequence[float]) -> bool:
    """Whether one seed is not enough to tell."""
    return any(FLOOR_FACTOR < in_noise(one, around) <= CERTAIN_FACTOR * FLOOR_FACTOR for one in seen[:1])


@dataclass(frozen=True)
class NormRatio:
    """Norms of one step, other run over reference; None where either run has no such norm."""

    index: int
    gradient: float | None
    clipped: float | None  # as the clipping call saw the gradient
    update: float | None
    optimizer: int = 0

    @property
    def vanished(self) -> bool:
        """Whether a norm is zero or infinite in one run and not in the other."""
        return not math.isfinite(self.farthest)

    @property
    def farthest(self) -> float:
        """The largest absolute log ratio among the three."""
        ratios = [r for r in (self.gradient, self.clipped, self.update) if r is not None]
        return max((abs(math.log(r)) if 0 < r < math.inf else math.inf for r in ratios), default=0.0)


def norm_ratios(reference: Trace, other: Trace) -> tuple[NormRatio, ...]:
    """Norm ratios of the first steps of each optimizer that both runs made."""
    made: Counter[int] = Counter()
    pairs = []
    for a, b in zip(reference.steps, other.steps, strict=False):
        if not a.skipped and not b.skipped and a.optimizer == b.optimizer and made[a.optimizer] < NORM_STEPS:
            made[a.optimizer] += 1
            pairs.append((a, b))
    least = {optimizer: _least([a for a, _ in pairs if a.optimizer == optimizer]) for optimizer in made}
    return tuple(_ratios(a, b, least[a.optimizer]) for a, b in pairs)


def _ratios(a: Step, b: Step, least: Sequence[float]) -> NormRatio:
    gradient, clipped, update = map(_ratio, _norms(a), _norms(b), least)
    return NormRatio(a.index, gradient, clipped, update, a.optimizer)


def _norms(step: Step) -> tuple[float | None, float | None, float | None]:
    """In the order of `NormRatio`."""
    return step.grad_norm, step.clip_norm, step.update_norm


def _least(steps: Sequence[Step]) -> list[float]:
    """The norms below which a step of an optimizer makes nothing beside its others."""
    kinds = zip(*map(_norms, steps), strict=True)
    return [
        SMALLEST_NORM * max((n for n in norms if n is not None and math.isfinite(n)), default=0.0) for norms in kinds
    ]


def _ratio(reference: float | None, other: float | None, least: float) -> float | None:
    if reference is None or other is None:
        return None
    if reference == other or (reference < least and other < least):
        return 1.0
    return other / reference if reference else math.inf


def norm_bound(floors: Sequence[Sequence[NormRatio]]) -> float | None:
    """How far, as a log ratio, a norm of a right migration may be from the original's; None without a floor."""
    if not any(floors):
        return None
    found = (ratio.farthest for floor in floors for ratio in floor)
    # A norm of zero on one side says nothing of how far the others may go: a saturated sigmoid has no gradient at all.
    return max(NORM_TOLERANCE, FLOOR_FACTOR * max((far for far in found if math.isfinite(far)), default=0.0))


def vanished(floors: Sequence[Sequence[NormRatio]]) -> Counter[int]:
    """At how many of the first steps of each optimizer rounding alone leaves nothing of a norm."""
    found: Counter[int] = Counter()
    for floor in floors:
        found |= Counter(ratio.optimizer for ratio in floor if ratio.vanished)
    return found


def norms_check(ratios: Sequence[NormRatio], limit: float | None, by_rounding: Counter[int] | None = None) -> Check:
    """N: gradient and update norms of the first steps are the original's.

    Args:
        by_rounding: at how many steps of each optimizer a norm may be gone, if they are not half of them.
    """
    title = "gradient and update norms of the first steps"
    if limit is None:
        return Check("N", title, Status.NOT_ASSESSED, "no noise floor: the rounded original did not end well")
    if not ratios:
        return Check("N", title, Status.NOT_ASSESSED, "no step was made by both scripts")
    made, gone = (Counter(r.optimizer for r in some) for some in (ratios, [r for r in ratios if r.vanished]))
    allowed = by_rounding or Counter()
    excused = {each for each in gone if gone[each] <= allowed[each] and 2 * gone[each] < made[each]}
    left = [ratio for ratio in ratios if not (ratio.vanished and ratio.optimizer in excused)]
    worst = max(left, key=lambda ratio: ratio.farthest)
    detail = f"farthest at {_told(worst)} times the original's (bound {math.exp(limit):.3g})"
    if len(left) < len(ratios):
        other = next(ratio for ratio in ratios if ratio not in left)
        detail += f"; at {_told(other)} times it, as rounding the forward passes alone makes it"
    if worst.farthest > limit:
        return Check("N", title, Status.FAIL, detail)
    return Check("N", title, Status.WARN if excused else Status.PASS, detail)


def _told(ratio: NormRatio) -> str:
    parts = (("gradient", ratio.gradient), ("before clipping", ratio.clipped), ("update", ratio.update))
    return f"step {ratio.index}: {', '.join(f'{what} {value:.3g}' for what, value in parts if value is not None)}"
