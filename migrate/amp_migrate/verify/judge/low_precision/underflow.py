"""Gradients that are too small for half precision: zeros where float32 has values.

What rounding to bfloat16 makes zero, which has float32's range, no loss scale keeps: it is noise of this script, but
where it takes nearly all of a parameter's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TypeAlias

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.recorded.recording import Trace

_LOST = 0.25  # of a parameter's gradient; what becomes zero by the way training goes is less
_BY_ROUNDING = 0.5  # beyond that: as much as this where rounding alone makes as many zeros
_TOLD = 0.01  # less is none
_SMALL = 16  # elements of which so many are zero by chance
_LATE = 5  # looks at the end, or a third of all, that are judged by themselves, too: a scale may fall late
Key: TypeAlias = tuple[int, int]  # an optimizer, and one of its parameters


def underflow(reference: Trace, migrated: Trace, floors: Sequence[tuple[Trace, Trace]] = ()) -> Check | None:
    """G15: no parameter's gradient is zero where float32 has values. None where no step could be compared.

    Args:
        floors: (full precision, the same with its forward passes rounded to bfloat16) of the original.
    """
    title = "small gradients are kept"
    sizes = _sizes(migrated)
    ours, theirs = _zeros(reference, sizes), _zeros(migrated, sizes)
    pairs = _worst(ours, theirs)
    if not pairs:
        return None
    lost = _lost(pairs)
    rounded = [_lost(_worst(_zeros(floor, sizes), _zeros(oracle, sizes))) for floor, oracle in floors]
    by_rounding = {key: max((each.get(key, 0.0) for each in rounded), default=0.0) for key in lost}
    beyond = {key: share - min(max(by_rounding[key], 0.0), _BY_ROUNDING) for key, share in lost.items()}
    many = [key for key, share in lost.items() if share > _LOST]
    if not many:
        reason = (
            f"none of {len(lost)} parameters loses more than {max(0.0, *lost.values()):.0%} of its gradient to zeros"
        )
        return Check("G15", title, Status.PASS, reason)
    failed = [key for key in many if beyond[key] > _LOST]
    optimizer, parameter = worst = max(failed or many, key=lambda key: (beyond[key], key))
    before, after = pairs[worst]
    shape = list(_shapes(migrated)[optimizer][parameter])
    several = len(failed or many)
    detail = (
        f"{f'{several} parameters lose theirs; ' if several > 1 else ''}{after:.0%} of the gradient of parameter "
        f"{parameter} (shape {shape}) of optimizer {optimizer} are zero{_scales(migrated)}, {before:.0%} without mixed "
        "precision"
    )
    if by_rounding[worst] >= _TOLD:
        detail += f"; rounding the forward passes to bfloat16 alone makes {by_rounding[worst]:.0%} more zero"
    return Check("G15", title, Status.FAIL if failed else Status.WARN, detail)


def _scales(trace: Trace) -> str:
    """The loss scales of a run, in words; empty where there was none."""
    values = sorted({scale.value for scale in trace.scales})
    if not values:
        return ""
    return (
        f" at loss scales from {values[0]:g} to {values[-1]:g}" if values[1:] else f" at a loss scale of {values[0]:g}"
    )


def _lost(pairs: Mapping[Key, tuple[float, float]]) -> dict[Key, float]:
    """How much more of each parameter's gradient is zero in the second run of each pair."""
    return {key: after - before for key, (before, after) in pairs.items()}


def _worst(ours: Mapping[Key, list[float]], theirs: Mapping[Key, list[float]]) -> dict[Key, tuple[float, float]]:
    """Of each parameter that both runs have, the pair of medians that is farthest apart."""
    compared = sorted(ours.keys() & theirs.keys())
    return {key: max(_medians(ours[key], theirs[key]), key=lambda pair: pair[1] - pair[0]) for key in compared}


def _medians(ours: list[float], theirs: list[float]) -> Iterator[tuple[float, float]]:
    """The median shares of zeros without mixed precision and with it: of all looks, and of the last ones."""
    yield median(ours), median(theirs)
    late = [max(_LATE, len(each) // 3) for each in (ours, theirs)]
    if len(ours) > late[0] and len(theirs) > late[1]:
        yield median(ours[-late[0] :]), median(theirs[-late[1] :])


def _zeros(trace: Trace, sizes: Mapping[Key, int]) -> dict[Key, list[float]]:
    """The shares of zeros in each parameter's gradient, look by look, by optimizer and parameter."""
    shares: dict[Key, list[float]] = {}
    for step in trace.steps:
        for parameter, zeros in enumerate(step.zeros if not step.skipped else ()):
            size = sizes.get((step.optimizer, parameter), 0)
            if zeros >= 0 and size >= _SMALL:
                shares.setdefault((step.optimizer, parameter), []).append(zeros / size)
    return {key: values for key, values in shares.items() if len(values) > 1}


def _shapes(trace: Trace) -> dict[int, tuple[tuple[int, ...], ...]]:
    return {step.optimizer: step.shapes for step in trace.steps if step.shapes is not None}


def _sizes(trace: Trace) -> dict[Key, int]:
    return {
        (optimizer, parameter): math.prod(shape)
        for optimizer, shapes in _shapes(trace).items()
        for parameter, shape in enumerate(shapes)
    }
