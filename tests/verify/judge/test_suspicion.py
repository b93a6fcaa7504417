from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.judge import suspicion
from amp_migrate.verify.recorded.recording import Failure, Trace

Make = Callable[..., Trace]


def with_steps(trace: Trace, **changes: object) -> Trace:
    return replace(trace, steps=tuple(replace(step, **changes) for step in trace.steps))  # type: ignore[arg-type]


def test_a_right_migration_raises_none(make_trace: Make) -> None:
    base = make_trace()
    assert suspicion.of_training(base, make_trace(scale=1024.0), base, base) == ""


def test_clipping_a_scaled_gradient_is_told_from_never_unscaling_it(make_trace: Make) -> None:
    base = make_trace()
    clipped_early = with_steps(make_trace(scale=1024.0), clip_norm=2048.0, grad_norm=1 / 1024)
    assert "clipped before scaler.unscale_()" in suspicion.of_training(base, clipped_early, base, base)
    never = with_steps(make_trace(scale=1024.0), clip_norm=2048.0, grad_norm=1.0)
    assert "used without scaler.unscale_()" in suspicion.of_training(base, never, base, base)


def test_a_scaled_gradient_at_the_optimizer_is_named(make_trace: Make) -> None:
    base = with_steps(make_trace(), clip_norm=None)
    scaled = with_steps(make_trace(scale=1024.0), clip_norm=None, grad_norm=1024.0)
    assert "without being unscaled" in suspicion.of_training(base, scaled, base, base)


def test_a_region_over_the_step_is_named(make_trace: Make) -> None:
    base = make_trace()
    over = with_steps(make_trace(scale=1024.0), autocast=True)
    assert "spans optimizer.step()" in suspicion.of_training(base, over, base, base)
    assert suspicion.of_training(with_steps(base, autocast=True), over, base, base) == ""


def test_gradients_of_the_step_before_are_named_where_they_are_not_zeroed_any_more(make_trace: Make) -> None:
    base, scaled = with_steps(make_trace(), zeroed=1), make_trace(scale=64.0)
    kept = replace(base, steps=(base.steps[0], *with_steps(base, zeroed=0, grad_norm=1.9).steps[1:]))
    assert "gradients are not zeroed before step 1" in suspicion.of_training(base, scaled, base, kept)
    for other in (with_steps(base, grad_norm=1.9), with_steps(base, zeroed=None), with_steps(base, zeroed=2)):
        assert suspicion.of_training(base, scaled, base, other) == ""
    assert suspicion.of_training(base, scaled, with_steps(base, zeroed=0), kept) == ""
    behind = replace(
        kept, steps=(replace(base.steps[0], zeroed=0), *base.steps[1:])
    )  # zeroed behind every step instead
    assert suspicion.of_training(base, scaled, base, behind) == ""


def test_what_is_in_half_precision_with_autocast_off_is_cast_by_hand(make_trace: Make) -> None:
    base, scaled = make_trace(), make_trace(scale=64.0)
    half = replace(base, census=(("linear", "float16", 3), ("relu", "float32", 3)))
    assert "linear() still runs in half precision" in suspicion.of_training(base, scaled, base, half)
    assert suspicion.of_training(base, scaled, half, half) == ""


def test_half_weights_are_named(make_trace: Make) -> None:
    base, half = make_trace(), with_steps(make_trace(scale=64.0), dtypes=("bfloat16", "float32"))
    assert "weights are in bfloat16" in suspicion.of_training(base, half, base, base)
    assert suspicion.of_training(with_steps(base, dtypes=("bfloat16",)), half, base, base) == ""


def test_a_loss_that_is_not_divided_is_named(make_trace: Make) -> None:
    def accumulating(trace: Trace) -> Trace:
        return replace(trace, backwards=trace.backwards * 4)

    base, whole = accumulating(make_trace()), accumulating(make_trace(norm=4.0))
    assert "4 micro-batches" in suspicion.of_training(base, whole, base, whole)


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("step() has already been called since the last update().", "update() is missing"),
        ("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.", "cross entropy"),
        ("No inf checks were recorded prior to update.", "gradients stay scaled"),
        ("No inf checks were recorded for this optimizer.", "no scaled gradients"),
        ("division by zero", ""),
    ],
)
def test_messages_of_pytorch_are_explained(message: str, meaning: str) -> None:
    found = suspicion.of_failure(Failure("RuntimeError", message, ""))
    assert meaning in found
    assert bool(found) == bool(meaning)


def test_no_exception_explains_nothing() -> None:
    assert suspicion.of_failure(None) == ""


@pytest.mark.parametrize("micro", [2, 4])
def test_as_many_micro_batches_as_the_gradient_is_too_large(make_trace: Make, micro: int) -> None:
    base = make_trace()
    accumulating = replace(base, backwards=base.backwards * micro)
    whole = replace(accumulating, steps=make_trace(norm=micro).steps)
    other = replace(accumulating, steps=make_trace(norm=micro * 1.1).steps)
    assert f"the {micro} micro-batches" in suspicion.of_training(accumulating, whole, accumulating, whole)
    assert suspicion.of_training(accumulating, other, accumulating, other) == ""


def test_steps_of_which_nothing_was_recorded_point_at_nothing(make_trace: Make) -> None:
    base = make_trace()
    nothing = replace(base, steps=())
    unknown = with_steps(make_trace(scale=1024.0), grad_norm=None, clip_norm=None, update_norm=None)
    for other in (nothing, unknown, with_steps(unknown, skipped=True)):
        off = replace(other, census=base.census)
        assert suspicion.of_training(base, other, base, off) == ""
        assert suspicion.of_training(nothing, other, nothing, off) == ""


def test_a_gradient_that_vanished_or_overflowed_is_not_that_of_a_scale(make_trace: Make) -> None:
    base = with_steps(make_trace(), clip_norm=2.0)
    for norm in (0.0, float("inf")):
        wrong = with_steps(make_trace(scale=1024.0), clip_norm=norm, grad_norm=norm)
        assert suspicion.of_training(base, wrong, base, base) == ""


def test_a_small_scale_cannot_be_told_from_noise(make_trace: Make) -> None:
    base = with_steps(make_trace(), clip_norm=None)
    for scale, meaning in ((4.0, ""), (8.0, "they are 8 times too large")):
        scaled = with_steps(make_trace(scale=scale), clip_norm=None, grad_norm=scale)
        found = suspicion.of_training(base, scaled, base, base)
        assert meaning in found
        assert bool(found) == bool(meaning)
