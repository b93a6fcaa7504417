from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.verify import speed
from amp_migrate.verify.trace import Trace

Make = Callable[..., Trace]


def timed(make_trace: Make, milliseconds: list[float]) -> Trace:
    return make_trace(milliseconds=tuple(milliseconds))


def test_warm_up_steps_do_not_count(make_trace: Make) -> None:
    slow = timed(make_trace, [900.0] * 10 + [20.0] * 30)
    fast = timed(make_trace, [900.0] * 10 + [10.0] * 30)
    found = speed.speed([(slow, fast)])
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.low is None


def test_several_pairs_give_an_interval_around_the_ratio(make_trace: Make) -> None:
    pairs = [(timed(make_trace, [20.0 + i] * 40), timed(make_trace, [10.0] * 40)) for i in range(3)]
    found = speed.speed(pairs)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(2.1, rel=1e-2)


def test_a_busy_machine_is_noisy(make_trace: Make) -> None:
    restless = timed(make_trace, [10.0, 30.0] * 30)
    calm = timed(make_trace, [10.0] * 60)
    noisy, quiet = speed.speed([(restless, calm)]), speed.speed([(calm, calm)])
    assert noisy is not None
    assert noisy.noisy
    assert quiet is not None
    assert not quiet.noisy


def test_runs_that_end_in_warm_up_measure_nothing(make_trace: Make) -> None:
    short = timed(make_trace, [10.0] * 12)
    assert speed.speed([(short, short)]) is None
    assert speed.speed([]) is None


def test_memory_is_the_median_over_pairs(make_trace: Make) -> None:
    pairs = [
        (make_trace(memory={"peak_allocated": a}), make_trace(memory={"peak_allocated": b}))
        for a, b in ((100, 60), (110, 50), (900, 55))
    ]
    found = speed.memory(pairs)
    assert found is not None
    assert (found.original, found.migrated) == (110, 55)
    assert found.ratio == 0.5


def test_a_cpu_has_no_gpu_memory_to_compare(make_trace: Make) -> None:
    trace = make_trace(memory={"peak_resident": 1000})
    assert speed.memory([(trace, trace)]) is None
