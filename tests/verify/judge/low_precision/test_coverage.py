"""Work in half precision: how much, in which format, throughout the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.low_precision import coverage
from amp_migrate.verify.recorded.recording import Counted, Scale, Trace

Make = Callable[..., Trace]
LOOKS = (0, 1, 2, 5, 10, 15)


def counted(shares: Mapping[int, float], dtype: str = "float16") -> tuple[Counted, ...]:
    """Work of 100, of which a share is in half precision, at each attempt."""
    return tuple(
        Counted(at, (("linear", dtype, 1, round(100 * share)), ("linear", "float32", 1, round(100 - 100 * share))))
        for at, share in shares.items()
    )


def all_at(share: float) -> dict[int, float]:
    return dict.fromkeys(LOOKS, share)


@pytest.mark.parametrize(
    ("shares", "status"),
    [
        (all_at(1.0), Status.PASS),
        (all_at(0.6), Status.PASS),
        (all_at(0.1), Status.FAIL),
        ({**all_at(1.0), 5: 0.0, 10: 0.0, 15: 0.0}, Status.FAIL),
        ({**all_at(1.0), 15: 0.0}, Status.FAIL),
        ({**all_at(1.0), **dict.fromkeys((17, 34, 51, 68, 85), 1.0), 34: 0.0}, Status.WARN),
    ],
)
def test_half_of_what_autocast_gives_at_every_look(make_trace: Make, shares: dict[int, float], status: Status) -> None:
    check = coverage.coverage(
        make_trace(), make_trace(counted=counted(shares)), make_trace(counted=counted(all_at(0.98)))
    )
    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("low", "kept", "status"),
    [(0.3, 70, Status.WARN), (0.7, 30, Status.PASS), (0.3, 30, Status.FAIL), (0.1, 70, Status.FAIL)],
)
def test_what_is_switched_off_within_a_region_is_meant(make_trace: Make, low: float, kept: int, status: Status) -> None:
    migrated = tuple(replace(each, kept=kept) for each in counted(all_at(low)))
    check = coverage.coverage(make_trace(), make_trace(counted=migrated), make_trace(counted=counted(all_at(1.0))))
    assert check is not None
    assert check.status is status
    assert check.detail.endswith(f"; {kept}% of all is in regions that switch autocast off")


def test_each_optimizer_is_held_against_its_own_share(make_trace: Make) -> None:
    steps = make_trace([1.0] * 4).steps
    turns = tuple(replace(step, optimizer=step.index % 2) for step in steps)
    model = make_trace(steps=turns, counted=counted({0: 1.0, 1: 0.2}))
    check = coverage.coverage(
        make_trace(), make_trace(steps=turns, counted=counted({0: 1.0, 1: 0.2, 2: 1.0, 3: 0.2})), model
    )
    assert check is not None
    assert check.status is Status.PASS


@pytest.mark.parametrize(("second", "status"), [(1.0, Status.PASS), (0.0, Status.FAIL)])
def test_no_optimizer_makes_up_for_another(make_trace: Make, second: float, status: Status) -> None:
    looks = (0, 1, 2, 5, 10, 15, 20, 25, 30)
    turns = tuple(replace(step, optimizer=int(step.index == 20)) for step in make_trace([1.0] * 31).steps)
    model = make_trace(steps=turns, counted=counted(dict.fromkeys(looks, 1.0)))
    shares = {**dict.fromkeys(looks, 1.0), 20: second}
    check = coverage.coverage(make_trace(), make_trace(steps=turns, counted=counted(shares)), model)
    assert check is not None
    assert check.status is status
    assert ("optimizer 1" in check.detail) is (status is Status.FAIL)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (1.0, ""),
        (0.9, ""),
        (0.6, "60% of the work of optimizer 1, where autocast would give 98%"),
    ],
)
def test_what_is_left_in_float32_is_said_of_the_optimizer_that_has_the_most(
    make_trace: Make, second: float, said: str
) -> None:
    turns = tuple(replace(step, optimizer=step.index % 2) for step in make_trace([1.0] * 4).steps)
    model = make_trace(steps=turns, counted=counted(dict.fromkeys(range(4), 0.98)))
    migrated = make_trace(steps=turns, counted=counted({0: 0.95, 1: second, 2: 0.95, 3: second}))
    assert coverage.in_float32(migrated, model) == said
    assert coverage.in_float32(migrated, None) == ""
    unseen = make_trace(steps=turns, counted=counted(dict.fromkeys(range(4), 0.0)))
    assert coverage.in_float32(migrated, unseen).endswith("with no call of a module to show what autocast would give")


def test_without_an_oracle_nothing_is_said(make_trace: Make) -> None:
    assert coverage.coverage(make_trace(), make_trace(counted=counted(all_at(0.0))), None) is None
    assert coverage.coverage(make_trace(), make_trace(), make_trace()) is None


@pytest.mark.parametrize(
    ("before", "after", "asked", "status"),
    [
        ("float32", "float16", "float16", Status.PASS),
        ("float32", "bfloat16", "float16", Status.FAIL),
        ("float32", "bfloat16", "", None),
        ("float16", "float16", "", Status.PASS),
        ("float16", "bfloat16", "", Status.FAIL),
        ("float16", "bfloat16", "bfloat16", Status.PASS),
        ("float32", "float32", "float16", None),
    ],
)
def test_the_half_format_is_what_was_asked_for_or_the_original_s(
    make_trace: Make, before: str, after: str, asked: str, status: Status | None
) -> None:
    ours, theirs = (make_trace(census=(("linear", dtype, 3),)) for dtype in (before, after))
    check = coverage.dtype(ours, theirs, asked)
    assert (check.status if check else None) is status


@pytest.mark.parametrize(
    ("dtypes", "scale", "said"),
    [
        (("float16", "bfloat16"), 64.0, "both bfloat16 and float16"),
        (("bfloat16",), 64.0, "bfloat16 with a loss scale"),
        (("bfloat16",), 1.0, ""),  # of a scaler that is off
        (("bfloat16",), None, ""),
        (("float16",), 64.0, ""),
        (("float32",), 64.0, ""),
    ],
)
def test_a_half_format_that_is_hardly_meant_is_told_where_none_was_asked_for(
    make_trace: Make, dtypes: tuple[str, ...], scale: float | None, said: str
) -> None:
    scales = () if scale is None else (Scale(scale, 1), Scale(scale, 2))
    theirs = make_trace(census=tuple(("linear", dtype, 3) for dtype in dtypes), scales=scales)
    check = coverage.dtype(make_trace(census=(("linear", "float32", 3),)), theirs, "")
    assert (check.detail.partition(";")[0] if check else "").startswith(said)
    assert (check.status if check else None) is (Status.WARN if said else None)
    asked = coverage.dtype(make_trace(), theirs, "bfloat16")
    assert asked is None or asked.status in (Status.PASS, Status.FAIL)


def test_an_original_in_native_amp_keeps_its_regions(make_trace: Make) -> None:
    census = (("linear", "float16", 3),)
    ours = make_trace(scale=64.0, census=census, counted=counted(all_at(0.8)))
    moved = make_trace(scale=64.0, census=census, counted=counted({**all_at(0.8), 5: 0.5}))
    same, other = (coverage.operations(ours, trace) for trace in (ours, moved))
    assert same is not None
    assert other is not None
    assert (same.status, other.status) == (Status.PASS, Status.FAIL)
    assert other.detail.startswith("step 5: ")
    assert coverage.operations(make_trace(), moved) is None
