from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify import suspicion
from amp_migrate.verify.trace import Failure, Trace

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


def test_gradients_of_the_step_before_are_named(make_trace: Make) -> None:
    base = make_trace()
    kept = replace(base, steps=(base.steps[0], *with_steps(base, grad_norm=1.9).steps[1:]))
    assert "zero_grad() is missing" in suspicion.of_training(base, make_trace(scale=64.0), base, kept)


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
