"""What optimizers are told at each step of whole trainings: numbers that the script sets, and no rounding changes.

Compared by value, at every step, with mixed precision on: a learning rate that is another after the first epoch, weight
decay that is gone. A schedule that follows the losses is another with any other rounding: what a twin is told otherwise
is not compared, and what is has to differ in every seed. Where a scaler skips a step, a schedule may wait for it: from
then on a value counts as the same that is told so many steps earlier or later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.programs.program import say, settings
from amp_migrate.verify.judge.statistics.convergence import Pairs
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.process import RunResult


def told_alike(pairs: Pairs, rounded: Sequence[RunResult]) -> Check | None:
    """C: optimizers are told the same at every step of all seeds. None where nothing is known of what they are told."""
    if not any(step.settings for original, _ in pairs for step in original.trace.steps):
        return None
    title = "optimizers are told the same along whole trainings"
    found = [_differing(original.trace, migrated.trace) for original, migrated in pairs]
    twins = zip(pairs, rounded, strict=False)
    moved = {setting for (original, _), twin in twins for setting in _differing(original.trace, twin.trace)}
    first, *others = found
    for setting, values in first.items():
        if setting not in moved and all(setting in each for each in others):
            seeds = f"in all {len(pairs)} seeds" if others else "in the one seed"
            return Check("C", title, Status.FAIL, f"{setting} of {values}, {seeds}")
    steps = min(len(migrated.trace.steps) for _, migrated in pairs)
    left = f", but for what rounding alone changes: {', '.join(sorted(moved))}" if moved else ""
    return Check("C", title, Status.PASS, f"the same values at all {steps} steps of {len(pairs)} seeds{left}")


def _differing(a: Trace, b: Trace) -> dict[str, str]:
    """The settings that differ at some step, each with the first such step and both values."""
    told: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for step in a.steps:
        told[step.optimizer].append(dict(settings(step)))
    found: dict[str, str] = {}
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
                place = f"optimizer step {x.index}: {say(ours[number][setting])} and {say(value)}"
                found.setdefault(f"{setting}{optimizer}", place)
    return found
