from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.judge.statistics.early import NormRatio, Window
from amp_migrate.verify.recorded.recording import Trace

Make = Callable[..., Trace]


def test_s_is_the_root_mean_square_of_relative_differences(make_trace: Make) -> None:
    window = early.window(make_trace([2.0, 1.0]), make_trace([2.0, 1.1]))
    assert window.s == pytest.approx(math.sqrt((0.0 + 0.1**2) / 2))


def test_only_the_first_twenty_steps_count(make_trace: Make) -> None:
    ours = [1.0] * 30
    theirs = [1.0] * 20 + [5.0] * 10
    assert early.window(make_trace(ours), make_trace(theirs)).s == 0


def test_a_loss_near_zero_is_measured_against_the_first_loss(make_trace: Make) -> None:
    window = early.window(make_trace([1.0, 0.0]), make_trace([1.0, 1e-6]))
    assert window.differences[1] == pytest.approx(1e-3)


def test_a_nan_where_the_reference_has_a_number_makes_s_infinite(make_trace: Make) -> None:
    assert early.window(make_trace([1.0, 1.0]), make_trace([1.0, math.nan])).s == math.inf


def test_a_nan_in_both_is_no_difference(make_trace: Make) -> None:
    assert early.window(make_trace([1.0, math.nan]), make_trace([1.0, math.nan])).s == 0


def test_noise_is_the_largest_until_then_and_of_the_first_passes_together() -> None:
    one, other = Window((1e-3, 4e-3, 2e-3, 3e-3, 9e-3)), Window((2e-3, 1e-3, 2e-3, 5e-3, 1e-3))
    assert early.noise([one, other]) == (4e-3, 4e-3, 4e-3, 5e-3, 9e-3)


def test_noise_ends_where_rounding_makes_a_loss_infinite() -> None:
    assert early.noise([Window((1e-3, math.inf, 1e-3))]) == (1e-3,)
    assert early.noise([Window((math.inf,))]) == ()


def test_s_weighs_every_pass_by_the_noise_there() -> None:
    around = early.noise([Window((1e-3, 1e-3, 1e-3, 1.0))])
    late, soon = Window((0.0, 0.0, 0.0, 2.0)), Window((4e-3, 4e-3, 4e-3, 0.0))
    assert early.in_noise(late, around) == pytest.approx(1.0)
    assert early.in_noise(soon, around) == pytest.approx(12**0.5)
    assert early.losses_check([soon], around).status is Status.INCONCLUSIVE


def test_an_oracle_that_rounded_nothing_gives_no_bound() -> None:
    assert early.noise([Window((0.0, 0.0))]) == ()
    assert early.noise([]) == ()
    assert early.losses_check([Window((0.0,))], ()).status is Status.NOT_ASSESSED
    assert early.norms_check([], None).status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ((0.01,), Status.PASS),
        ((0.0301,), Status.INCONCLUSIVE),
        ((0.31,), Status.FAIL),
        ((0.05, 0.01, 0.02), Status.PASS),
        ((0.05, 0.01, 0.05), Status.FAIL),
        ((0.05, 0.01), Status.FAIL),
    ],
)
def test_in_doubt_most_seeds_decide(values: tuple[float, ...], status: Status) -> None:
    assert early.losses_check([Window((value,)) for value in values], (0.01,)).status is status


def test_doubt_lies_between_the_bound_and_ten_times_the_bound() -> None:
    assert not early.in_doubt([Window((0.0299,))], (0.01,))
    assert early.in_doubt([Window((0.031,))], (0.01,))
    assert not early.in_doubt([Window((0.31,))], (0.01,))
    assert not early.in_doubt([Window((0.31,))], ())


def test_norm_ratios_leave_skipped_steps_out(make_trace: Make) -> None:
    ratios = early.norm_ratios(make_trace(skips=(0, 1)), make_trace(skips=(0, 1), scale=64.0))
    assert [ratio.index for ratio in ratios] == [2, 3, 4, 5, 6, 7]


def test_equal_norms_pass_and_a_scaled_gradient_fails(make_trace: Make) -> None:
    same = early.norm_ratios(make_trace(), make_trace())
    assert early.norms_check(same, early.NORM_TOLERANCE).status is Status.PASS
    scaled = early.norm_ratios(make_trace(), make_trace(norm=65536.0))
    assert early.norms_check(scaled, early.NORM_TOLERANCE).status is Status.FAIL


def test_a_gradient_that_vanished_is_infinitely_far(make_trace: Make) -> None:
    assert early.norm_ratios(make_trace(), make_trace(norm=0.0))[0].farthest == math.inf


def test_the_norm_bound_follows_the_oracle_but_never_falls_below_two_percent() -> None:
    assert early.norm_bound([[NormRatio(0, math.exp(0.1), None, None)]]) == pytest.approx(0.3)
    assert early.norm_bound([[NormRatio(0, 1.0, None, 1.0)]]) == early.NORM_TOLERANCE
    assert early.norm_bound([[NormRatio(0, math.inf, None, None)]]) == early.NORM_TOLERANCE
    vanished = [NormRatio(0, math.exp(0.1), None, None), NormRatio(1, 0.0, None, None)]
    assert early.norm_bound([vanished]) == pytest.approx(0.3)


def some_vanish(trace: Trace, steps: Sequence[int], norm: float = 0.0) -> Trace:
    made = [replace(step, grad_norm=norm) if step.index in steps else step for step in trace.steps]
    return replace(trace, steps=tuple(made))


@pytest.mark.parametrize(
    ("gone", "by_rounding", "status"),
    [
        ([3], [3], Status.WARN),
        ([3], [5], Status.WARN),
        ([3], [], Status.FAIL),
        ([2, 3], [3], Status.FAIL),
        ([2, 3, 4], [2, 3, 4], Status.FAIL),  # what is gone at every other step does not train
    ],
)
def test_a_norm_may_be_gone_at_as_many_steps_as_rounding_takes_it(
    make_trace: Make, gone: list[int], by_rounding: list[int], status: Status
) -> None:
    allowed = early.vanished(
        [early.norm_ratios(make_trace(), some_vanish(make_trace(), each)) for each in (by_rounding, by_rounding[:1])]
    )
    ratios = early.norm_ratios(make_trace(), some_vanish(make_trace(), gone))
    check = early.norms_check(ratios, early.NORM_TOLERANCE, allowed)
    assert check.status is status
    assert ("as rounding the forward passes alone makes it" in check.detail) == (status is Status.WARN)


def test_norms_of_one_optimizer_excuse_none_of_another(make_trace: Make) -> None:
    def of_two(trace: Trace) -> Trace:
        return replace(trace, steps=tuple(replace(step, optimizer=step.index % 2) for step in trace.steps))

    whole, first, second = (of_two(some_vanish(make_trace(), each)) for each in ((), (2,), (3,)))
    allowed = early.vanished([early.norm_ratios(whole, first)])
    for trace, status in ((first, Status.WARN), (second, Status.FAIL)):
        assert early.norms_check(early.norm_ratios(whole, trace), early.NORM_TOLERANCE, allowed).status is status


def test_a_step_that_makes_nothing_beside_the_others_tells_nothing(make_trace: Make) -> None:
    for norm, far in ((0.9e-4, False), (1.1e-4, True)):
        ratios = early.norm_ratios(some_vanish(make_trace(), [3], norm), some_vanish(make_trace(), [3]))
        assert any(ratio.vanished for ratio in ratios) is far
    everywhere = early.norm_ratios(make_trace(norm=1e-9), make_trace(norm=0.0))
    assert all(ratio.vanished for ratio in everywhere)


def test_two_optimizers_have_a_window_of_twenty_steps_each(make_trace: Make) -> None:
    one = make_trace([1.0] * 60)
    two = replace(one, steps=tuple(replace(step, optimizer=step.index % 2) for step in one.steps))
    assert len(early.window(two, one).differences) == 40
    assert len(early.norm_ratios(two, two)) == 12


def test_a_norm_that_only_one_run_has_is_not_compared(make_trace: Make) -> None:
    clipped = make_trace()
    plain = replace(clipped, steps=tuple(replace(step, clip_norm=None) for step in clipped.steps))
    for ratios in (early.norm_ratios(clipped, plain), early.norm_ratios(plain, clipped)):
        check = early.norms_check(ratios, early.NORM_TOLERANCE)
        assert check.status is Status.PASS
        assert check.detail == "farthest at step 0: gradient 1, update 1 times the original's (bound 1.02)"


def test_the_step_that_is_farthest_away_is_named(make_trace: Make) -> None:
    trace = make_trace()
    odd = replace(trace, steps=tuple(replace(s, grad_norm=1.5) if s.index == 3 else s for s in trace.steps))
    check = early.norms_check(early.norm_ratios(trace, odd), early.NORM_TOLERANCE)
    assert check.status is Status.FAIL
    assert check.detail.startswith("farthest at step 3: gradient 1.5, before clipping 1, update 1 times")


def test_norms_that_are_farther_apart_than_two_percent_fail(make_trace: Make) -> None:
    for factor, status in ((1.019, Status.PASS), (1.021, Status.FAIL), (1 / 1.019, Status.PASS), (0.979, Status.FAIL)):
        ratios = early.norm_ratios(make_trace(), make_trace(norm=factor))
        assert early.norms_check(ratios, early.NORM_TOLERANCE).status is status


def test_no_step_in_common_is_not_assessed(make_trace: Make) -> None:
    ratios = early.norm_ratios(make_trace(skips=range(20)), make_trace())
    assert early.norms_check(ratios, early.NORM_TOLERANCE).status is Status.NOT_ASSESSED


def test_noise_below_that_of_float32_counts_as_that_of_float32() -> None:
    assert early.noise([Window((1e-9,))]) == (1e-6,)
