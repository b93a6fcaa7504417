from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.low_precision import latent
from amp_migrate.verify.recorded.recording import Checkpoint, Scale, Trace

Make = Callable[..., Trace]
HALF = (("linear", "float16", 3),)


def within(trace: Trace) -> Trace:
    """The same with its backward passes inside a region."""
    return replace(trace, backwards=tuple(replace(backward, autocast=True) for backward in trace.backwards))


def test_a_backward_pass_inside_a_region_fails_unless_the_original_has_it_too(make_trace: Make) -> None:
    plain = make_trace()
    check = latent.regions_end(plain, within(plain))
    assert check.status is Status.FAIL
    assert "backward pass 0" in check.detail
    assert latent.regions_end(within(plain), within(plain)).status is Status.PASS
    assert latent.regions_end(plain, plain).status is Status.PASS


def test_a_step_inside_a_region_is_named_before_the_backward_pass(make_trace: Make) -> None:
    plain = make_trace()
    step = replace(within(plain), steps=tuple(replace(each, autocast=True) for each in plain.steps))
    assert "optimizer step 0" in latent.regions_end(plain, step).detail


def test_a_loss_function_in_half_fails(make_trace: Make) -> None:
    plain = make_trace()
    half = replace(plain, backwards=tuple(replace(backward, half=("NllLoss",)) for backward in plain.backwards))
    check = latent.whole_losses(plain, half)
    assert check.status is Status.FAIL
    assert "NllLoss" in check.detail
    assert latent.whole_losses(half, half).status is Status.PASS


def test_float16_without_a_scale_fails_and_bfloat16_needs_none(make_trace: Make) -> None:
    check = latent.scaled_steps(make_trace(), make_trace(census=HALF))
    assert check is not None
    assert check.status is Status.FAIL
    assert "without a loss scale" in check.detail
    assert latent.scaled_steps(make_trace(), make_trace(census=(("linear", "bfloat16", 3),))) is None
    assert latent.scaled_steps(make_trace(census=HALF), make_trace(census=HALF)) is None


@pytest.mark.parametrize(
    ("value", "grows", "status"),
    [(1.0, False, Status.FAIL), (1.0, True, Status.PASS), (8.0, False, Status.PASS)],
)
def test_a_scale_of_one_that_never_grows_is_none(make_trace: Make, value: float, grows: bool, status: Status) -> None:
    scales = tuple(Scale(value, i + 1, grows=grows) for i in range(20))
    trace = replace(make_trace(scale=value), scales=scales)
    check = latent.scaled_steps(make_trace(), trace)
    assert check is not None
    assert check.status is status
    own = latent.scaled_steps(make_trace(census=HALF), trace)
    assert own is not None
    assert own.status is Status.PASS


def test_a_step_past_the_scaler_fails(make_trace: Make) -> None:
    trace = make_trace(scale=64.0)
    past = replace(trace, steps=tuple(replace(step, past_scaler=step.index == 4) for step in trace.steps))
    check = latent.scaled_steps(make_trace(), past)
    assert check is not None
    assert check.status is Status.FAIL
    assert "optimizer step 4" in check.detail


def test_a_scaler_for_every_step_fails_and_one_for_each_optimizer_does_not(make_trace: Make) -> None:
    trace = make_trace(scale=64.0)
    many = replace(trace, scales=tuple(Scale(64.0, i + 1, scaler=i) for i in range(20)))
    two = replace(trace, scales=tuple(Scale(64.0, i + 1, scaler=i % 2) for i in range(20)))
    statuses = [latent.scaled_steps(make_trace(), each) for each in (many, two)]
    assert [check.status for check in statuses if check is not None] == [Status.FAIL, Status.PASS]


@pytest.mark.parametrize(("skips", "status"), [((0, 1, 2), Status.PASS), ((5, 7, 9, 11), Status.FAIL)])
def test_a_scale_that_grows_into_overflow_fails_and_one_that_finds_its_level_does_not(
    make_trace: Make, skips: tuple[int, ...], status: Status
) -> None:
    values = [64.0] * 4 + [128.0] * 16
    trace = replace(make_trace(scale=64.0, skips=skips), scales=tuple(Scale(v, i + 1) for i, v in enumerate(values)))
    check = latent.scaled_steps(make_trace(), trace)
    assert check is not None
    assert check.status is status


@pytest.mark.parametrize(
    ("saved", "status"),
    [
        ((Checkpoint(optimizer=True, scaler=True),), Status.PASS),
        ((Checkpoint(optimizer=True, scaler=False), Checkpoint(optimizer=False, scaler=True)), Status.PASS),
        ((Checkpoint(optimizer=True, scaler=False),), Status.FAIL),
        ((Checkpoint(optimizer=False, scaler=False),), None),
        ((), None),
    ],
)
def test_checkpoints_of_the_optimizer_hold_the_scaler(
    make_trace: Make, saved: tuple[Checkpoint, ...], status: Status | None
) -> None:
    check = latent.checkpoints(make_trace(), make_trace(scale=64.0, checkpoints=saved))
    assert (check.status if check is not None else None) is status


def test_an_original_that_never_saved_its_scale_is_only_told(make_trace: Make) -> None:
    trace = make_trace(scale=64.0, checkpoints=(Checkpoint(optimizer=True, scaler=False),))
    check = latent.checkpoints(trace, trace)
    assert check is not None
    assert check.status is Status.WARN


@pytest.mark.parametrize(("scalers", "detail"), [(1, "1 scaler"), (2, "2 scalers")])
def test_scalers_are_counted(make_trace: Make, scalers: int, detail: str) -> None:
    scales = tuple(Scale(64.0, i + 1, scaler=i % scalers) for i in range(20))
    check = latent.scaled_steps(make_trace(), make_trace(scale=64.0, scales=scales))
    assert check is not None
    assert check.detail == detail


@pytest.mark.parametrize(
    ("skips", "steps", "status"),
    [
        ((4, 5), 20, Status.PASS),  # two are what growing costs
        ((4, 5, 6), 20, Status.FAIL),  # from the step on before which it grew
        ((3, 4, 5), 20, Status.PASS),
        ((4, 5, 6), 60, Status.PASS),  # one in twenty
        ((4, 5, 6), 59, Status.FAIL),
    ],
)
def test_skips_after_the_scale_first_grew(make_trace: Make, skips: tuple[int, ...], steps: int, status: Status) -> None:
    scales = tuple(Scale(64.0 if i < 3 else 128.0, i + 1) for i in range(steps))
    check = latent.scaled_steps(make_trace(), make_trace([1.0] * steps, scale=64.0, skips=skips, scales=scales))
    assert check is not None
    assert check.status is status


def test_another_scaler_with_a_larger_scale_has_not_grown(make_trace: Make) -> None:
    scales = tuple(Scale(64.0 * (1 + i % 2), i + 1, scaler=i % 2) for i in range(20))
    check = latent.scaled_steps(make_trace(), make_trace(scale=64.0, skips=(5, 7, 9, 11), scales=scales))
    assert check is not None
    assert check.status is Status.PASS


def test_a_step_past_the_scaler_is_not_charged_where_the_original_has_one(make_trace: Make) -> None:
    trace = make_trace(scale=64.0)
    past = replace(trace, steps=tuple(replace(step, past_scaler=True) for step in trace.steps))
    check = latent.scaled_steps(past, past)
    assert check is not None
    assert check.status is Status.PASS


def test_a_few_steps_do_not_tell_whether_each_makes_a_scaler(make_trace: Make) -> None:
    statuses = []
    for count in (5, 6):
        scales = tuple(Scale(64.0, i + 1, scaler=i) for i in range(count))
        check = latent.scaled_steps(make_trace(), make_trace([1.0] * count, scale=64.0, scales=scales))
        assert check is not None
        statuses.append(check.status)
    assert statuses == [Status.PASS, Status.FAIL]
