"""The t interval of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev


def half_interval(values: Sequence[float], level: float = 0.975) -> float:
    """How far the mean of `values` may be off; infinite for fewer than two values.

    `level` is that of one side: 0.975 gives half the width of the 95 % interval.
    """
    if len(values) < 2:
        return math.inf
    from scipy.stats import t  # slow to import, and not needed before whole trainings or a GPU are there

    return float(t.ppf(level, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
