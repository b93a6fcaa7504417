"""Gradients that are too small for half precision: zeros where float32 has values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.recorded.recording import Trace

_LOST = 0.25  # of a parameter's gradient; what becomes zero by the way training goes is less
_SMALL = 16  # elements of which so many are zero by chance
_LATE = 5  # looks at the end, or a third of all, that are judged by themselves, too: a scale may fall late


def underflow(reference: Trace, migrated: Trace) -> Check | None:
    """G15: no parameter's gradient is zero where float32 has values. None where no step could be compared."""
    title = "small gradients are kept"
    sizes = _sizes(migrated)
    ours, theirs = _zeros(reference, sizes), _zeros(migrated, sizes)
    compared = sorted(ours.keys() & theirs.keys())
    if not compared:
        return None
    pairs = {key: max(_medians(ours[key], theirs[key]), key=lambda pair: pair[1] - pair[0]) for key in compared}
    lost = {key: after - before for key, (before, after) in pairs.items()}
    worst = max(lost, key=lambda key: (lost[key], key))
    optimizer, parameter = worst
    shape = list(_shapes(migrated)[optimizer][parameter])
    before, after = pairs[worst]
    detail = (
        f"{after:.0%} of the gradient of parameter {parameter} (shape {shape}) of optimizer {optimizer} are "
        f"zero, {before:.0%} without mixed precision"
    )
    if lost[worst] <= _LOST:
        most = max(lost[worst], 0)
        reason = f"none of {len(compared)} parameters loses more than {most:.0%} of its gradient to zeros"
        return Check("G15", title, Status.PASS, reason)
    many = sum(share > _LOST for share in lost.values())
    where = f"{many} parameters lose theirs; " if many > 1 else ""
    return Check("G15", title, Status.FAIL, f"{where}{detail}: the loss scale is too small, or stays so")


def _medians(ours: list[float], theirs: list[float]) -> Iterator[tuple[float, float]]:
    """The median shares of zeros without mixed precision and with it: of all looks, and of the last ones."""
    yield median(ours), median(theirs)
    late = [max(_LATE, len(each) // 3) for each in (ours, theirs)]
    if len(ours) > late[0] and len(theirs) > late[1]:
        yield median(ours[-late[0] :]), median(theirs[-late[1] :])


def _zeros(trace: Trace, sizes: dict[tuple[int, int], int]) -> dict[tuple[int, int], list[float]]:
    """The shares of zeros in each parameter's gradient, look by look, by optimizer and parameter."""
    shares: dict[tuple[int, int], list[float]] = {}
    for step in trace.steps:
        for parameter, zeros in enumerate(step.zeros if not step.skipped else ()):
            size = sizes.get((step.optimizer, parameter), 0)
            if zeros >= 0 and size >= _SMALL:
                shares.setdefault((step.optimizer, parameter), []).append(zeros / size)
    return {key: values for key, values in shares.items() if len(values) > 1}


def _shapes(trace: Trace) -> dict[int, tuple[tuple[int, ...], ...]]:
    return {step.optimizer: step.shapes for step in trace.steps if step.shapes is not None}


def _sizes(trace: Trace) -> dict[tuple[int, int], int]:
    return {
        (optimizer, parameter): math.prod(shape)
        for optimizer, shapes in _shapes(trace).items()
        for parameter, shape in enumerate(shapes)
    }
