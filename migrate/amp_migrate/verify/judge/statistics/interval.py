"""Student's t and the chi-square distribution: how far a mean may be off, and a spread."""

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
    return quantile(level, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def quantile(level: float, degrees: int) -> float:
    """The quantile of Student's t for a level above 0.5 and a whole number of degrees of freedom.

    Found by halving the angle whose tangent it is, to the last bit.
    """
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if (1 + _within(middle, degrees)) / 2 < level else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """The probability that |t| is at most tan(`angle`) sqrt(`degrees`): Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    is_odd = degrees % 2
    term = total = 0.0 if degrees == 1 else math.cos(angle) if is_odd else 1.0
    for k in range(2 + is_odd, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total


def chi_square(level: float, degrees: int) -> float:
    """The quantile of chi-square, by halving: below it lies a share `level` of a sum of `degrees` squared normals."""
    low, high = 0.0, 1.0
    while _below(high, degrees) < level:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _below(middle, degrees) < level else (low, middle)
    return low


def half_of(count: int, share: float) -> int:
    """So many of `count` values lie on one side of what half of all do in at most a `share` of cases.

    More than there are values where so few cannot tell.
    """
    needed, chance = count + 1, 0.0
    while needed and (chance := chance + math.comb(count, needed - 1) / 2**count) <= share:
        needed -= 1
    return needed


def _below(value: float, degrees: int) -> float:
    """The probability that chi-square is at most `value`: Abramowitz and Stegun, 26.4.6."""
    half = degrees / 2
    term = math.exp(half * math.log(value / 2) - value / 2 - math.lgamma(half + 1)) if value else 0.0
    total, count = term, half
    while term > total * 1e-17:
        count += 1
        term *= value / 2 / count
        total += term
    return total
