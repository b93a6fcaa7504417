from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.judge import gates
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.recorded.recording import Scale, Trace

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
    assert gates.weights(make_trace(), make_trace(nonfinite=("Net.book",))).status is Status.FAIL


def test_as_many_steps_with_other_backward_passes_fail(make_trace: Make) -> None:
    trace = make_trace()
    twice = replace(trace, backwards=trace.backwards * 2)
    check = gates.counts(trace, twice)
    assert check.status is Status.FAIL
    assert check.detail == "backward passes: 20 and 40; 20 optimizer steps"


def test_five_steps_are_enough(make_trace: Make) -> None:
    assert gates.counts(make_trace([1.0] * 5), make_trace([1.0] * 5)).status is Status.PASS
    assert gates.scale_alive(make_trace([1.0] * 10, scale=64.0, skips=range(5))).status is Status.PASS


@pytest.mark.parametrize(("skipped", "status"), [(1, Status.WARN), (2, Status.WARN), (3, Status.FAIL)])
def test_two_late_skips_of_few_steps_are_no_share(make_trace: Make, skipped: int, status: Status) -> None:
    late = range(20, 20 + 2 * skipped, 2)  # of 30
    assert gates.scale_alive(make_trace([1.0] * 30, scale=64.0, skips=late)).status is status


@pytest.mark.parametrize(
    ("skipped", "status"), [(4, Status.PASS), (5, Status.WARN), (20, Status.WARN), (21, Status.FAIL)]
)
def test_shares_of_late_skips_that_are_allowed(make_trace: Make, skipped: int, status: Status) -> None:
    late = range(20, 20 + 8 * skipped, 8)  # of 400: one in a hundred is passed, one in twenty only warned of
    assert gates.scale_alive(make_trace([1.0] * 420, scale=64.0, skips=late)).status is status


def test_four_skips_in_a_row_are_no_dead_scale(make_trace: Make) -> None:
    four, five = (gates.scale_alive(make_trace([1.0] * 400, scale=64.0, skips=range(30, 30 + n))) for n in (4, 5))
    assert [four.status, five.status] == [Status.WARN, Status.FAIL]


@pytest.mark.parametrize(("kept", "status"), [(4, Status.FAIL), (3, Status.FAIL), (2, Status.WARN), (0, Status.WARN)])
def test_late_skips_fail_where_the_scale_takes_back_what_it_grew_by(
    make_trace: Make, kept: int, status: Status
) -> None:
    """The last four of 32 steps' skips: so many of them leave the scale where it had been before."""
    late, value, scales = (20, 23, 26, 29), 65536.0, []
    for step in range(32):
        if step in late[: 4 - kept]:
            value /= 2
        scales.append(Scale(value, step + 1))
    trace = make_trace([1.0] * 32, scale=64.0, skips=late, scales=tuple(scales))
    assert gates.scale_alive(trace).status is status


@pytest.mark.parametrize("number", [0, 2])
def test_a_second_scaler_finds_its_own_level(make_trace: Make, number: int) -> None:
    late = (20, 24, 28)
    first = [Scale(8.0, step + 1, scaler=1) for step in range(30)]
    second = [Scale(2.0 ** (15 - sum(each < step for each in late)), step, scaler=number) for step in range(1, 31)]
    scales = tuple(sorted((*first, *second), key=lambda one: (one.attempt, one.scaler)))
    trace = make_trace([1.0] * 30, scale=64.0, skips=late, scales=scales)
    assert gates.scale_alive(trace).status is Status.WARN


def test_a_scale_of_one_is_alive(make_trace: Make) -> None:
    trace = make_trace(scale=2.0)
    assert gates.scale_alive(replace(trace, scales=(Scale(1.0, 3),))).status is Status.PASS


def test_a_parameter_of_unknown_shape_is_named_by_its_number(make_trace: Make) -> None:
    trace = replace(make_trace(), steps=tuple(replace(step, shapes=None) for step in make_trace().steps))
    lost = replace(trace, steps=tuple(replace(step, grads="101") for step in trace.steps))
    check = gates.gradients(lost, trace)
    assert check.detail == "1 differ; parameter 1 of optimizer 0 has a gradient only in the migrated run"


def test_parameters_that_are_added_later_count_from_then_on(make_trace: Make) -> None:
    trace = make_trace()
    later = tuple(replace(step, grads="1111") for step in trace.steps[1:])
    grown = replace(trace, steps=(trace.steps[0], *later))
    assert gates.gradients(grown, grown).detail == "4 of 4 parameters"
    assert gates.gradients(trace, grown).status is Status.FAIL


def test_gradients_are_compared_by_optimizer(make_trace: Make) -> None:
    trace = make_trace()
    two = replace(trace, steps=tuple(replace(step, optimizer=step.index % 2) for step in trace.steps))
    lost = replace(two, steps=tuple(replace(step, grads="110") if step.optimizer else step for step in two.steps))
    assert "parameter 2 (shape [1]) of optimizer 1 has a gradient only in the original" in (
        gates.gradients(two, lost).detail
    )
    assert gates.gradients(trace, two).detail == "parameters per optimizer: [3] and [3, 3]"


@pytest.mark.parametrize(("last", "status"), [(24, Status.PASS), (25, Status.FAIL)])
def test_steps_from_the_twentieth_on_are_late(make_trace: Make, last: int, status: Status) -> None:
    steps = 1000  # so that the share of skipped steps is no matter
    assert gates.scale_alive(make_trace([1.0] * steps, scale=64.0, skips=range(15, last))).status is status


def test_the_range_of_the_scale_is_told(make_trace: Make) -> None:
    scales = tuple(Scale(value, i + 1) for i, value in enumerate((64.0, 32.0, 128.0)))
    check = gates.scale_alive(make_trace(scale=64.0, scales=scales, skips=(1,)))
    assert check.detail == "between 32 and 128; 1 of 20 steps skipped"


def test_an_infinite_loss_of_the_original_is_not_charged_to_the_migration(make_trace: Make) -> None:
    check = gates.finite_losses(make_trace([1.0, math.inf, 1.0]), make_trace([1.0, math.nan, math.inf]))
    assert check.status is Status.FAIL
    assert check.detail == "backward pass 2 has a loss of inf"


def test_products_in_both_half_formats_are_counted(make_trace: Make) -> None:
    census = (("linear", "float16", 3), ("mm", "bfloat16", 2), ("conv2d", "float32", 4), ("relu", "float16", 9))
    detail = gates.low_precision(make_trace(census=census)).detail
    assert detail == "5 of 9 matrix operations in bfloat16 and float16"


def test_statistics_that_overflow_in_the_original_too_pass(make_trace: Make) -> None:
    one, two = (make_trace(nonfinite=names) for names in (("Net.mask",), ("Net.book", "Net.mask")))
    assert gates.weights(one, one).status is Status.PASS
    assert gates.weights(one, two).status is Status.FAIL


def test_more_steps_are_asked_of_the_option_or_of_the_script(make_trace: Make) -> None:
    stopped, ended = (make_trace([1.0] * 2, scale=64.0, stopped=stopped) for stopped in (True, False))
    for gate in (lambda trace: gates.counts(trace, trace), gates.scale_alive):
        assert gate(stopped).detail.endswith("raise --steps")
        assert gate(ended).detail.endswith("the script makes no more; give it more data or epochs")
