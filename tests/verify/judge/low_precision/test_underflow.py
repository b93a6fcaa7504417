"""Gradients that half precision has no numbers for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.low_precision.underflow import underflow
from amp_migrate.verify.recorded.recording import Trace

Make = Callable[..., Trace]


def with_zeros(trace: Trace, zeros: Sequence[tuple[int, int]], skipped: bool = False) -> Trace:
    shapes = ((10, 10), (4,))
    steps = [
        replace(step, shapes=shapes, zeros=each, skipped=skipped)
        for step, each in zip(trace.steps, zeros, strict=False)
    ]
    return replace(trace, steps=tuple(steps))


@pytest.mark.parametrize(
    ("ours", "theirs", "status"),
    [
        ([(10, 0)] * 3, [(10, 0)] * 3, Status.PASS),
        ([(10, 0)] * 3, [(34, 0)] * 3, Status.PASS),
        ([(10, 0)] * 3, [(36, 0)] * 3, Status.FAIL),
        ([(90, 0)] * 3, [(95, 0)] * 3, Status.PASS),  # a network that is mostly off in float32, too
        ([(0, 0)] * 3, [(0, 4)] * 3, Status.PASS),  # four elements are zero by chance
        ([(0, 0)] * 3, [(100, 0), (0, 0), (0, 0)], Status.PASS),  # once
        ([(10, 0)] * 18, [(10, 0)] * 12 + [(86, 0)] * 6, Status.FAIL),  # a scale that falls late
        ([(10, 0)] * 12 + [(86, 0)] * 6, [(10, 0)] * 12 + [(88, 0)] * 6, Status.PASS),
        ([(10, 0)] * 18, [(10, 0)] * 16 + [(86, 0)] * 2, Status.PASS),
        ([(10, 0)] * 8, [(10, 0)] * 5 + [(86, 0)] * 3, Status.FAIL),
        ([(10, 0)] * 5, [(10, 0)] * 3 + [(86, 0)] * 2, Status.PASS),
    ],
)
def test_zeros_where_float32_has_values(
    make_trace: Make, ours: list[tuple[int, int]], theirs: list[tuple[int, int]], status: Status
) -> None:
    check = underflow(with_zeros(make_trace(), ours), with_zeros(make_trace(), theirs))
    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("theirs", "rounded", "status"),
    [
        (46, 46, Status.WARN),  # as the original with nothing but its forward passes rounded
        (46, 22, Status.WARN),
        (46, 20, Status.FAIL),
        (74, 90, Status.WARN),
        (76, 90, Status.FAIL),  # what nearly loses its gradient does not train, whoever takes it
        (24, 0, Status.PASS),
    ],
)
def test_what_rounding_alone_makes_zero_no_loss_scale_keeps(
    make_trace: Make, theirs: int, rounded: int, status: Status
) -> None:
    full, oracle, migrated = (with_zeros(make_trace(), [(zeros, 0)] * 6) for zeros in (0, rounded, theirs))
    check = underflow(full, migrated, [(full, full), (full, oracle)])
    assert check is not None
    assert check.status is status
    assert (f"rounding the forward passes to bfloat16 alone makes {rounded}% more zero" in check.detail) == (
        status is not Status.PASS
    )


def test_the_loss_scales_stand_beside_what_is_lost(make_trace: Make) -> None:
    full, migrated = with_zeros(make_trace(), [(0, 0)] * 3), with_zeros(make_trace(scale=8.0), [(90, 0)] * 3)
    check = underflow(full, migrated)
    assert check is not None
    assert check.detail.endswith("are zero at a loss scale of 8, 0% without mixed precision")
    fallen = replace(migrated, scales=(*migrated.scales, replace(migrated.scales[0], value=2.0)))
    check = underflow(full, fallen)
    assert check is not None
    assert " are zero at loss scales from 2 to 8, 0%" in check.detail


def test_steps_that_were_skipped_say_nothing(make_trace: Make) -> None:
    full = with_zeros(make_trace(), [(0, 0)] * 3)
    assert underflow(full, with_zeros(make_trace(), [(100, 0)] * 3, skipped=True)) is None
    assert underflow(make_trace(), make_trace()) is None
