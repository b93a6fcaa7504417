"""The course of whole trainings: losses on the way, where rounding has not yet carried the seeds as far as at the end.

A fault that acts late shows most soon after it begins; until the end the training may have made up for it, or rounding
may have grown as large. So the mean loss of each fifth is compared as that of the last one is. It fails only where
nearly every seed differs the same way by more than rounding could; where most do, the question is open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.statistics.convergence import Convergence, Pairs, Tolerance, judged
from amp_migrate.verify.recorded import metrics
from amp_migrate.verify.runs.process import RunResult


def course(pairs: Pairs, rounded: Sequence[RunResult], tolerance: Tolerance) -> Check | None:
    """C: no fifth of the trainings goes another way. None where rounding moves no loss on the way."""
    fifths = [judged(metric, pairs, rounded, tolerance) for metric in metrics.ON_THE_WAY]
    known = [one for one in fifths if one.fails == one.fails]
    if not known:
        return None
    farthest = max(known, key=lambda one: one.beyond)
    status = Status.PASS
    if farthest.apart:
        status = Status.FAIL
    elif 2 * farthest.beyond > farthest.n:
        status = Status.INCONCLUSIVE
    return Check("C", "losses along whole trainings", status, _detail(farthest, known, status))


def _detail(farthest: Convergence, known: Sequence[Convergence], status: Status) -> str:
    if status is Status.PASS:
        seen = min((abs(one.fails / one.original) for one in known if one.original), default=math.inf)
        return f"no fifth goes another way; one that is off by {seen:.1%} in every seed would have failed"
    return (
        f"{farthest.metric.name}: {farthest.beyond} of {farthest.n} seeds are off by more than {farthest.fails:.2g}, "
        f"all on one side; rounding makes {farthest.noise:.2g}"
    )
