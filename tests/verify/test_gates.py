from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify import gates
from amp_migrate.verify.gates import Status
from amp_migrate.verify.trace import Scale, Trace

Make = Callable[..., Trace]


def test_as_many_steps_pass(make_trace: Make) -> None:
    assert gates.counts(make_trace(), make_trace()).status is Status.PASS


def test_a_missing_step_fails(make_trace: Make) -> None:
    check = gates.counts(make_trace([1.0] * 20), make_trace([1.0] * 19))
    assert check.status is Status.FAIL
    assert "20 and 19" in check.detail


def test_skipped_steps_are_counted_and_named(make_trace: Make) -> None:
    check = gates.counts(make_trace(), make_trace(skips=(0, 1), scale=64.0))
    assert check.status is Status.PASS
    assert "2 of them skipped" in check.detail


def test_nothing_is_shown_by_a_script_without_backward_or_with_too_few_steps(make_trace: Make) -> None:
    assert gates.counts(make_trace([]), make_trace([])).status is Status.VACUOUS
    assert gates.counts(make_trace([1.0] * 4), make_trace([1.0] * 4)).status is Status.VACUOUS
    by_hand, longer = (replace(make_trace([1.0] * count), steps=()) for count in (30, 31))
    check = gates.counts(by_hand, longer)
    assert (check.status, check.detail) == (Status.VACUOUS, "no optimizer step was seen in either script")
    assert gates.counts(make_trace(), by_hand).status is Status.FAIL


def test_half_precision_matrix_operations_are_the_proof(make_trace: Make) -> None:
    assert gates.low_precision(make_trace(scale=64.0)).status is Status.PASS
    assert gates.low_precision(make_trace()).status is Status.VACUOUS
    only_relu = make_trace(census=(("relu", "bfloat16", 3), ("linear", "float32", 3)))
    assert gates.low_precision(only_relu).status is Status.VACUOUS
    assert gates.low_precision(make_trace(census=())).status is Status.VACUOUS


def test_a_loss_that_turns_nan_fails_unless_the_original_does_too(make_trace: Make) -> None:
    bad = make_trace([1.0, math.nan])
    assert gates.finite_losses(make_trace([1.0, 1.0]), bad).status is Status.FAIL
    assert gates.finite_losses(bad, bad).status is Status.PASS


def test_a_script_without_a_scale_passes(make_trace: Make) -> None:
    assert gates.scale_alive(make_trace()).status is Status.PASS


def test_a_scale_below_one_fails(make_trace: Make) -> None:
    trace = make_trace(scale=2.0)
    assert gates.scale_alive(replace(trace, scales=(Scale(0.5, 3),))).status is Status.FAIL


def test_a_scale_that_is_never_updated_fails(make_trace: Make) -> None:
    check = gates.scale_alive(replace(make_trace(scale=64.0), scales=()))
    assert check.status is Status.FAIL
    assert "never updated" in check.detail


def test_calibration_skips_pass(make_trace: Make) -> None:
    assert gates.scale_alive(make_trace(scale=64.0, skips=(0, 1, 2))).status is Status.PASS


@pytest.mark.parametrize(
    ("skips", "status"),
    [((50,), Status.PASS), ((50, 70), Status.WARN), (range(30, 35), Status.FAIL), (range(20, 200, 15), Status.FAIL)],
)
def test_late_skips_are_rated(make_trace: Make, skips: range, status: Status) -> None:
    assert gates.scale_alive(make_trace([1.0] * 150, scale=64.0, skips=tuple(skips))).status is status


def test_late_skips_that_do_not_follow_one_another_are_no_row(make_trace: Make) -> None:
    skips = tuple(range(30, 330, 60))  # five
    assert gates.scale_alive(make_trace([1.0] * 400, scale=64.0, skips=skips)).status is Status.WARN


def test_a_run_of_skips_only_fails_and_a_run_of_nearly_only_skips_shows_nothing(make_trace: Make) -> None:
    assert gates.scale_alive(make_trace([1.0] * 10, scale=64.0, skips=range(10))).status is Status.FAIL
    assert gates.scale_alive(make_trace([1.0] * 10, scale=64.0, skips=range(8))).status is Status.VACUOUS


def test_a_parameter_that_lost_its_gradient_is_named(make_trace: Make) -> None:
    trace = make_trace()
    lost = replace(trace, steps=tuple(replace(step, grads="101") for step in trace.steps))
    check = gates.gradients(trace, lost)
    assert check.status is Status.FAIL
    assert "parameter 1 (shape [4]) of optimizer 0" in check.detail
    assert gates.gradients(trace, trace).status is Status.PASS


def test_a_parameter_reached_by_any_step_counts_as_reached(make_trace: Make) -> None:
    trace = make_trace()
    late = replace(trace, steps=(replace(trace.steps[0], grads="100"), *trace.steps[1:]))
    assert gates.gradients(trace, late).status is Status.PASS


def test_an_optimizer_with_fewer_parameters_fails(make_trace: Make) -> None:
    trace = make_trace()
    fewer = replace(trace, steps=tuple(replace(step, grads="11") for step in trace.steps))
    assert gates.gradients(trace, fewer).status is Status.FAIL


def test_half_weights_fail_unless_the_original_has_them(make_trace: Make) -> None:
    trace = make_trace()
    half = replace(trace, steps=tuple(replace(step, dtypes=("float16", "float32")) for step in trace.steps))
    assert gates.weights(trace, half).status is Status.FAIL
    assert gates.weights(half, half).status is Status.PASS


def test_running_statistics_that_overflowed_fail(make_trace: Make) -> None:
    assert gates.weights(make_trace(), make_trace(nonfinite_statistics=1)).status is Status.FAIL
