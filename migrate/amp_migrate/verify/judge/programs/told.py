"""What optimizers are told at each step: numbers that the script sets, and no rounding changes.

Compared by value, at every step, with mixed precision on: a learning rate that is another after the first epoch, weight
decay that is gone. A schedule that follows the losses is another with any other rounding: what a twin is told otherwise
is not compared; what is has to differ in every seed of whole trainings, and where there is one run, while it has twins.
Where a scaler skips a step, a schedule may wait for it: from then on a value counts as the same that is told so many
steps earlier or later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.programs.program import say, settings
from amp_migrate.verify.judge.statistics.convergence import Pairs
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.process import RunResult


@dataclass(frozen=True)
class _Told:
    """A step, and what the optimizers of two runs were told there."""

    step: int
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"optimizer step {self.step}: {self.ours} and {self.theirs}"


def told_alike(pairs: Pairs, rounded: Sequence[RunResult]) -> Check | None:
    """C: optimizers are told the same at every step of all seeds. None where nothing is known of what they are told."""
    if not any(step.settings for original, _ in pairs for step in original.trace.steps):
        return None
    title = "optimizers are told the same along whole trainings"
    found = [_differing(original.trace, migrated.trace) for original, migrated in pairs]
    twins = zip(pairs, rounded, strict=False)
    moved = {setting for (original, _), twin in twins for setting in _differing(original.trace, twin.trace)}
    first, *others = found
    for setting, told in first.items():
        if setting not in moved and all(setting in each for each in others):
            seeds = f"in all {len(pairs)} seeds" if others else "in the one seed"
            return Check("C", title, Status.FAIL, f"{setting} of {told}, {seeds}")
    steps = min(len(migrated.trace.steps) for _, migrated in pairs)
    left = f", but for what rounding alone changes: {', '.join(sorted(moved))}" if moved else ""
    return Check("C", title, Status.PASS, f"the same values at all {steps} steps of {len(pairs)} seeds{left}")


def told_in_one_run(original: Trace, migrated: Trace, twins: Sequence[tuple[Trace, Trace]]) -> Check | None:
    """G19: optimizers are told the same with mixed precision on. None where nothing is known of what they are told.

    Args:
        twins: (full precision, the same rounded) of the original's first steps.
    """
    if not any(step.settings for step in original.steps):
        return None
    title = "optimizers are told the same"
    moved = {setting for full, rounded in twins for setting in _differing(full, rounded)}
    found = {setting: at for setting, at in _differing(original, migrated).items() if setting not in moved}
    if not found:
        left = f", but for what rounding alone changes: {', '.join(sorted(moved))}" if moved else ""
        return Check("G19", title, Status.PASS, f"the same values at all {len(migrated.steps)} steps{left}")
    setting, first = min(found.items(), key=lambda each: each[1].step)
    if first.step < min((len(rounded.steps) for _, rounded in twins), default=0):
        return Check("G19", title, Status.FAIL, f"{setting} of {first}, where rounding alone changes nothing of it")
    return Check("G19", title, Status.WARN, f"{setting} of {first}: a schedule may follow the losses, and they differ")


def _differing(a: Trace, b: Trace) -> dict[str, _Told]:
    """The settings that differ at some step, each with the first such step and both values."""
    told: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for step in a.steps:
        told[step.optimizer].append(dict(settings(step)))
    found: dict[str, _Told] = {}
    made: Counter[int] = Counter()
    skips = 0
    for x, y in zip(a.steps, b.steps, strict=False):
        if x.optimizer != y.optimizer:
            break
        skips += x.skipped or y.skipped
        number = made[x.optimizer]
        made[x.optimizer] += 1
        if x.settings == y.settings:
            continue
        ours = told[x.optimizer]
        near = ours[max(0, number - skips) : number + skips + 1]
        optimizer = f", optimizer {x.optimizer}," if len(told) > 1 else ""
        for setting, value in settings(y):
            if setting in ours[number] and all(each.get(setting) != value for each in near):
                found.setdefault(f"{setting}{optimizer}", _Told(x.index, say(ours[number][setting]), say(value)))
    return found
