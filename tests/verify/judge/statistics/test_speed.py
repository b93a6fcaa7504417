from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from amp_migrate.verify.experiments import ladder
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.statistics import speed
from amp_migrate.verify.judge.verdict import Limits, assess
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.reports import as_text
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]
GPU = {"torch": "2.9", "python": "3.11", "device": "NVIDIA H100", "stand_in": False}


def timed(make_trace: Make, milliseconds: list[float]) -> Trace:
    return make_trace(milliseconds=tuple(milliseconds))


def test_warm_up_steps_do_not_count(make_trace: Make) -> None:
    slow = timed(make_trace, [900.0] * 10 + [20.0] * 30)
    fast = timed(make_trace, [900.0] * 10 + [10.0] * 30)
    found = speed.speed([(slow, fast)])
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.low is found.high is None


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


@dataclass
class FakeGpu:
    """Makes timing runs whose step time follows from what is run."""

    milliseconds: Callable[[Run], float]
    results: dict[Run, RunResult] = field(default_factory=dict)

    def make(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if run not in self.results:
                trace = Trace(milliseconds=(self.milliseconds(run),) * 40)
                self.results[run] = RunResult(run, ("python",), Path("nowhere"), 0, 1.0, trace)


def on_gpu(make_evidence: MakeEvidence, make_trace: Make, capability: list[int]) -> tuple[Evidence, FakeGpu]:
    evidence = make_evidence(original=make_trace(environment={**GPU, "capability": capability}))
    pool = FakeGpu(lambda run: 5.0 if run.arm is Arm.MIGRATED else {None: 12.0, True: 10.0, False: 20.0}[run.tf32])
    return ladder.time(pool, evidence, pairs=3), pool


@pytest.mark.parametrize("capability", [[8, 0], [9, 0]])
def test_a_gpu_with_tf32_is_compared_with_it_on_and_off(
    make_evidence: MakeEvidence, make_trace: Make, capability: list[int]
) -> None:
    evidence, pool = on_gpu(make_evidence, make_trace, capability)
    assert len(pool.results) == 4 * 3
    order = [(run.arm.value[0], run.tf32) for run in pool.results]
    assert order[:4] == order[7:3:-1] == order[8:]  # in turns, there and back
    assessment = assess(evidence, Limits())
    assert assessment.speed is not None
    assert assessment.speed.ratio == pytest.approx(2.4)
    assert [beside.ratio for beside in assessment.tf32 if beside is not None] == pytest.approx([2.0, 4.0])
    said = list(as_text.performance(assessment))
    assert said[1:3] == [
        "beside the original with TF32 on: 2.00 times as fast (95 % interval 2.00 to 2.00)",
        "beside the original with TF32 off: 4.00 times as fast (95 % interval 4.00 to 4.00)",
    ]


def test_an_older_gpu_has_no_tf32_to_compare_with(make_evidence: MakeEvidence, make_trace: Make) -> None:
    evidence, pool = on_gpu(make_evidence, make_trace, [7, 5])
    assert len(pool.results) == 2 * 3
    assert assess(evidence, Limits()).tf32 == ()


@pytest.mark.parametrize(("spread", "noisy"), [(28.0, False), (29.0, True)])
def test_a_spread_of_a_quarter_of_the_median_is_noisy(make_trace: Make, spread: float, noisy: bool) -> None:
    restless = timed(make_trace, [500.0] * 10 + [100.0, 100.0 + spread] * 25)
    found = speed.speed([(restless, timed(make_trace, [10.0] * 60))])
    assert found is not None
    assert found.iqr == pytest.approx(spread / (100 + spread / 2))
    assert found.noisy is noisy


def test_memory_that_only_one_of_a_pair_counted_is_left_out(make_trace: Make) -> None:
    counted, other = make_trace(memory={"peak_allocated": 100}), make_trace(memory={"peak_resident": 7})
    assert speed.memory([(counted, other), (other, counted)]) is None
    found = speed.memory([(counted, other), (counted, counted)])
    assert found is not None
    assert found.ratio == 1.0


def test_three_steps_after_the_warm_up_are_enough_in_both_runs(make_trace: Make) -> None:
    enough, short = (timed(make_trace, [900.0] * 10 + [20.0] * count) for count in (3, 2))
    found = speed.speed([(enough, enough)])
    assert found is not None
    assert (found.ratio, found.original_ms, found.migrated_ms) == (1.0, 20.0, 20.0)
    assert speed.speed([(enough, short)]) is None
    assert speed.speed([(short, enough)]) is None


def test_a_tenth_of_a_long_run_is_warm_up(make_trace: Make) -> None:
    slow_start = timed(make_trace, [900.0] * 20 + [20.0] * 180)
    found = speed.speed([(slow_start, slow_start)])
    assert found is not None
    assert found.iqr == 0.0
    later = speed.speed([(timed(make_trace, [900.0] * 70 + [20.0] * 130), slow_start)])
    assert later is not None
    assert later.iqr > 1.0
