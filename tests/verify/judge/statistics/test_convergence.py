"""Whole trainings over paired seeds: PASS, FAIL or INCONCLUSIVE."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.experiments import ladder
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.statistics.convergence import DEFAULT, Convergence, Tolerance, checks, converged, power
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.recorded import metrics
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
Result = Callable[..., RunResult]


@pytest.fixture
def result(tmp_path: Path, make_trace: Make) -> Result:
    def made(loss: float, said: str = "", run: Run | None = None) -> RunResult:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "stdout.log").write_text(said)
        (folder / "stderr.log").touch()
        trace = make_trace([9.0] * 8 + [loss] * 2)
        return RunResult(run or Run(Arm.ORIGINAL, whole=True), ("python",), folder, 0, 1.0, trace)

    return made


def paired(result: Result, shift: float, seeds: int = 5, spread: float = 0.1) -> tuple[Convergence, ...]:
    """Trainings that spread over seeds, twins that rounding puts 0.001 apart, and migrated ones off by a shift."""
    noise = random.Random(3)
    losses = [1.0 + noise.gauss(0, spread) for _ in range(seeds)]
    pairs = [(result(loss), result(loss + shift + noise.gauss(0, 0.0003))) for loss in losses]
    return converged(pairs, [result(loss + noise.gauss(0, 0.001)) for loss in losses], DEFAULT)


@pytest.mark.parametrize(
    ("shift", "status"),
    [
        (0.0, Status.PASS),
        (0.001, Status.PASS),
        (0.007, Status.INCONCLUSIVE),
        (0.05, Status.FAIL),
        (-0.05, Status.FAIL),
        (-0.007, Status.INCONCLUSIVE),
    ],
)
def test_a_difference_is_measured_in_what_rounding_does_whichever_way_it_goes(
    result: Result, shift: float, status: Status
) -> None:
    (found,) = paired(result, shift)
    assert found.metric.name == "tail loss"
    assert found.status is status


@pytest.mark.parametrize(("sign", "others"), [(1, 1), (-1, 1), (1, -1)])
def test_a_fault_that_does_more_to_one_seed_than_to_another_fails(result: Result, sign: int, others: int) -> None:
    """Its interval is as wide as the difference itself; every seed is far from what rounding does to it."""
    losses = [1.0 + seed / 10 for seed in range(5)]
    shifts = [others * sign * 0.2, *(sign * each for each in (0.2, 0.3, 0.5, 2.5))]
    pairs = [(result(loss), result(loss + shift)) for loss, shift in zip(losses, shifts, strict=True)]
    (found,) = converged(pairs, [result(loss + 0.001 * (-1) ** i) for i, loss in enumerate(losses)], DEFAULT)
    assert abs(found.difference) - found.half < found.fails
    assert found.beyond == (5 if others > 0 else 4)
    assert found.status is (Status.FAIL if others > 0 else Status.INCONCLUSIVE)
    assert ("5 of 5 seeds are beyond that" in checks([found])[0].detail) is (others > 0)


def test_runs_that_rounding_leaves_alone_show_nothing(result: Result) -> None:
    pairs = [(result(1.0), result(1.001)) for _ in range(3)]
    (found,) = converged(pairs, [result(1.0)] * 3, DEFAULT)
    assert found.status is Status.INCONCLUSIVE
    (found,) = converged(pairs, [result(1.0)] * 3, Tolerance(5.0, 0.01))
    assert found.status is Status.PASS


def test_a_margin_as_wide_as_what_is_learned_leaves_it_open(result: Result) -> None:
    pairs = [(result(1.0 + d), result(1.0 + d)) for d in (-0.1, 0.0, 0.1)]
    wild = [result(1.0 + d) for d in (1.0, -1.0, 0.5)]
    (found,) = converged(pairs, wild, DEFAULT)
    assert found.weak
    assert found.status is Status.INCONCLUSIVE
    assert "nothing could be seen" in checks([found])[0].detail


def test_a_margin_as_wide_as_half_a_loss_leaves_it_open_unless_it_was_asked_for(result: Result) -> None:
    pairs = [(result(0.01 + d), result(0.01 + d)) for d in (-0.001, 0.0, 0.001)]
    rounded = [result(0.01 + d) for d in (0.003, 0.0, -0.003)]  # far less than the 9 that was learned
    (found,) = converged(pairs, rounded, DEFAULT)
    assert (found.weak, found.status) == (True, Status.INCONCLUSIVE)
    (found,) = converged(pairs, rounded, Tolerance(share=10.0))
    assert (found.weak, found.status) == (False, Status.PASS)


def test_strictness_and_a_tolerance_move_the_limits(result: Result) -> None:
    pairs = [(result(1.0 + d), result(1.0 + d)) for d in (-0.1, 0, 0.1)]
    rounded = [result(1.0 + d + 0.01) for d in (-0.1, 0, 0.1)]
    default, strict, tolerant = (
        converged(pairs, rounded, one)[0] for one in (DEFAULT, Tolerance(3.0), Tolerance(3.0, 0.5))
    )
    assert strict.passes == pytest.approx(0.6 * default.passes)
    assert strict.fails == pytest.approx(0.6 * default.fails)
    assert 0.01 < strict.passes < 0.03 < strict.fails
    assert tolerant.passes == tolerant.fails == pytest.approx(0.5)


def test_what_would_be_seen_is_told_from_the_first_seeds(result: Result) -> None:
    pairs = [(result(1.0), result(1.01)), (result(1.0), result(0.99))]
    assert power(pairs, DEFAULT) == ["tail loss: a change by about 5.0% or more would be told from rounding"]
    assert power([], DEFAULT) == []


def test_migrated_runs_that_do_not_converge_fail(result: Result) -> None:
    pairs = [(result(1.0), result(math.nan if i < 2 else 1.0)) for i in range(5)]
    rounded = [result(1.01)] * 5
    (found,) = converged(pairs, rounded, DEFAULT)
    assert found.status is Status.FAIL
    assert "2 migrated runs did not converge" in checks([found])[0].detail
    (found,) = converged([(b, a) for a, b in pairs], rounded, DEFAULT)  # the original's own trouble
    assert found.status is Status.PASS


@pytest.mark.parametrize(
    ("said", "metric", "value", "higher"),
    [
        ("epoch 1 val_loss: 0.51\nepoch 2 val_loss: 0.25\n", "val_loss", 0.25, False),
        ("Test set: Average loss: 0.0266, Accuracy: 9911/10000 (99%)\n", "accuracy", 9911.0, True),
        ("| end of epoch 1 | valid loss 5.93 | valid ppl 376.2\n", "valid ppl", 376.2, False),
        (" * Acc@1 76.1\nval top-1: 76.13\n", "val top-1", 76.13, True),
        ("Eval F1 = 9.1e-1\n", "eval f1", 0.91, True),
    ],
)
def test_the_last_metric_that_is_printed_is_read(
    result: Result, said: str, metric: str, value: float, higher: bool
) -> None:
    run = result(1.0, said)
    found = metrics.primary(run)[-1]
    assert (found.name, found.higher_is_better) == (metric, higher)
    assert metrics.value(run, found) == pytest.approx(value)


@pytest.mark.parametrize("said", ["", "step 3 loss: 0.5\n", "the map is not the territory\n"])
def test_other_output_holds_no_metric(result: Result, said: str) -> None:
    assert [metric.name for metric in metrics.primary(result(1.0, said))] == ["tail loss"]


def test_every_metric_is_judged_by_its_own_rounding(result: Result) -> None:
    def pair(loss: float, before: float, after: float) -> tuple[RunResult, RunResult]:
        return result(loss, f"test acc {before}"), result(loss, f"test acc {after}")

    pairs = [pair(1.0 + d, 0.9 + d / 100, 0.8 + d / 100) for d in (-0.1, 0.0, 0.1)]
    rounded = [result(1.0 + d + 0.01, f"test acc {0.9 + d / 100 + 0.001}") for d in (-0.1, 0.0, 0.1)]
    loss, accuracy = converged(pairs, rounded, DEFAULT)
    assert loss.status is Status.PASS
    assert accuracy.status is Status.FAIL
    assert accuracy.difference == pytest.approx(-0.1)


class Trainings:
    """Stands for a pool: knows how every run ends, and which were asked for."""

    def __init__(self, result: Result, losses: Callable[[Run], float]) -> None:
        self.results: dict[Run, RunResult] = {}
        self._result = result
        self._losses = losses

    def make(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self.results.setdefault(run, self._result(self._losses(run), run=run))


def test_steps_that_the_loss_scaler_left_out_are_left_out_beside_it_too(
    result: Result, make_evidence: Callable[..., Evidence]
) -> None:
    def loss(run: Run) -> float:
        return 1.0 + 0.01 * bool(run.oracle)

    pool = Trainings(result, loss)
    skipping = Run(Arm.MIGRATED, seed_index=1, whole=True)
    pool.make([skipping])
    made = pool.results[skipping].trace
    steps = tuple(replace(step, skipped=step.index == 0) for step in made.steps)
    pool.results[skipping] = replace(pool.results[skipping], trace=replace(made, steps=steps))
    evidence = ladder.train_whole(pool, make_evidence(), 3, DEFAULT)
    assert [original.run.skips for original, _ in evidence.whole] == [(), (0,), ()]
    assert [(twin.run.skips, twin.run.oracle) for twin in evidence.rounded] == [((), 1), ((0,), 1), ((), 1)]
    assert all(original.run.whole and original.run.arm is Arm.ORIGINAL for original, _ in evidence.whole)


@pytest.mark.parametrize(("shift", "noise", "seeds"), [(0.0, 0.0, 3), (0.035, 0.01, 6), (2.0, 0.0, 3)])
def test_more_seeds_are_run_only_while_the_verdict_is_open(
    result: Result, make_evidence: Callable[..., Evidence], shift: float, noise: float, seeds: int
) -> None:
    def loss(run: Run) -> float:
        seed = random.Random(run.seed_index).uniform(-1, 1)
        rounding = 0.01 * (1 if run.seed_index % 2 else -1) if run.oracle else 0.0
        return 1.0 + seed / 3 + rounding + (shift + seed * noise if run.arm is Arm.MIGRATED else 0.0)

    pool = Trainings(result, loss)
    told: list[str] = []
    evidence = ladder.train_whole(pool, make_evidence(), 3, DEFAULT, told.append)
    assert len(evidence.whole) == len(evidence.rounded) == seeds
    assert len(told) == 1


def test_the_verdict_says_how_far_it_reaches(result: Result, make_evidence: Callable[..., Evidence]) -> None:
    good = [(result(1.0 + d), result(1.0 + d)) for d in (-0.1, 0.0, 0.1)]
    bad = [(result(1.0 + d), result(2.0 + d)) for d in (-0.1, 0.0, 0.1)]
    rounded = tuple(result(1.01 + d) for d in (-0.1, 0.0, 0.1))
    passed = assess(replace(make_evidence(), whole=tuple(good), rounded=rounded), Limits())
    assert passed.word == "PASS (converged, n = 3)"
    assert not any("convergence" in item for item in passed.not_checked)
    failed = assess(replace(make_evidence(), whole=tuple(bad), rounded=rounded), Limits())
    assert failed.verdict is Verdict.FAIL
    assert failed.sentence.startswith("tail loss of whole trainings: 1 and 2 over 3 seeds")


def test_a_whole_training_that_crashes_is_charged_to_its_arm(
    result: Result, make_evidence: Callable[..., Evidence]
) -> None:
    crashed = replace(result(1.0, run=Run(Arm.MIGRATED, whole=True)), returncode=3)
    crashed = replace(crashed, trace=replace(crashed.trace, stopped=False))
    pairs = tuple((result(1.0), crashed) for _ in range(3))
    assert assess(replace(make_evidence(), whole=pairs), Limits()).verdict is Verdict.FAIL
    swapped = replace(crashed, run=Run(Arm.ORIGINAL, whole=True))
    pairs = tuple((swapped, result(1.0)) for _ in range(3))
    assert assess(replace(make_evidence(), whole=pairs), Limits()).verdict is Verdict.INCONCLUSIVE


def convergence(**changes: Any) -> Convergence:
    """Five pairs that differ by nothing, with a margin of 1."""
    fine = Convergence(metrics.Metric("tail loss"), 5, 1.0, 1.0, 0.0, 0.5, 0.2, 1.0, 2.0, 2.0, 0)
    return replace(fine, **changes)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, Status.PASS),
        ({"n": 3}, Status.PASS),
        ({"n": 2}, Status.INCONCLUSIVE),
        ({"lost": 1}, Status.INCONCLUSIVE),
        ({"lost": 2}, Status.FAIL),
        ({"n": 2, "lost": 2}, Status.FAIL),
        ({"lost": -1}, Status.PASS),
        ({"difference": 0.5}, Status.PASS),
        ({"difference": 0.51}, Status.INCONCLUSIVE),
        ({"difference": -0.51}, Status.INCONCLUSIVE),
        ({"difference": 2.5}, Status.INCONCLUSIVE),
        ({"difference": 2.6}, Status.FAIL),
        ({"difference": -2.6}, Status.FAIL),
        ({"beyond": 5}, Status.FAIL),
        ({"difference": 3.0, "half": 20.0, "beyond": 4}, Status.INCONCLUSIVE),
        ({"n": 4, "beyond": 4, "difference": 3.0, "half": 20.0}, Status.INCONCLUSIVE),
        ({"widest": 0.9}, Status.INCONCLUSIVE),
        ({"widest": 0.9, "difference": 2.6}, Status.FAIL),
        ({"passes": math.nan}, Status.INCONCLUSIVE),
    ],
)
def test_the_interval_lies_within_the_lower_limit_beyond_the_upper_one_or_neither(
    changes: dict[str, float], status: Status
) -> None:
    assert convergence(**changes).status is status


def test_whole_trainings_without_a_number_are_inconclusive(result: Result) -> None:
    (found,) = converged([(result(math.nan), result(math.nan))] * 3, [], DEFAULT)
    assert found.status is Status.INCONCLUSIVE
    assert checks([found])[0].detail == "0 of the pairs have finite values"
    (nothing,) = checks([])
    assert (nothing.status, nothing.title) == (Status.INCONCLUSIVE, "whole trainings end alike")


def test_what_a_pass_of_whole_trainings_says(result: Result) -> None:
    better = convergence(original=1.0, migrated=0.9, difference=-0.1, n=5, half=0.25)
    lost = convergence(original=1.0, migrated=1.1, difference=0.1, lost=1)
    details = [check.detail for check in checks([better, lost])]
    assert details[0] == (
        "1 and 0.9 over 5 seeds: -0.1 with an interval of 0.25 on either side; rounding makes 0.2, up to 1 passes, "
        "and more than 2 fails"
    )
    assert details[1].endswith("; 1 migrated run did not converge where the original's did")


def test_several_metrics_share_the_error_of_a_failure(result: Result) -> None:
    def pair(loss: float, noise: float, said: str) -> tuple[RunResult, RunResult]:
        return result(loss, said), result(loss + 0.1 + noise, said)

    one, two = (
        converged([pair(1.0 + n, n, said) for n in (-0.1, 0.0, 0.05, 0.1)], [result(1.2, said)] * 4, DEFAULT)
        for said in ("", "test acc 0.5")
    )
    assert [len(one), len(two)] == [1, 2]
    assert two[0].half > one[0].half
    assert two[0].fails > one[0].fails
    assert two[0].passes == one[0].passes


def test_more_seeds_are_run_while_one_metric_of_two_leaves_the_verdict_open(
    result: Result, make_evidence: Callable[..., Evidence]
) -> None:
    class Telling(Trainings):
        def make(self, runs: Sequence[Run]) -> None:
            for run in runs:
                swing = 0.1 * (-1) ** run.seed_index if run.arm is Arm.MIGRATED else 0.0
                swing += 0.001 if run.oracle else 0.0
                said = f"test acc {0.5 + run.seed_index / 100 + swing}"
                self.results.setdefault(run, result(self._losses(run), said, run=run))

    pool = Telling(result, lambda run: 1.0 + run.seed_index / 100 + (0.01 if run.oracle else 0.0))
    evidence = ladder.train_whole(pool, make_evidence(), 3, DEFAULT)
    loss, accuracy = converged(evidence.whole[:3], evidence.rounded[:3], DEFAULT)
    assert (loss.status, accuracy.status) == (Status.PASS, Status.INCONCLUSIVE)
    assert len(evidence.whole) > 3
