"""What optimizers are told at each step of whole trainings: compared by value, where rounding changes nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.verify.experiments import ladder
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs.told import told_alike, told_in_one_run
from amp_migrate.verify.judge.statistics.convergence import DEFAULT
from amp_migrate.verify.judge.verdict import Limits, assess
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
Trained = Callable[..., RunResult]
STEPS = 20
DECAYED = [0.1 if step < 10 else 0.01 for step in range(STEPS)]
FOLLOWING = [0.1 if step < 14 else 0.01 for step in range(STEPS)]


@pytest.fixture
def trained(tmp_path: Path, make_trace: Make) -> Trained:
    """A training with a learning rate for each step, and what else its optimizer is told."""
    (tmp_path / "stdout.log").touch()
    (tmp_path / "stderr.log").touch()

    def made(
        rates: Sequence[float] = DECAYED, skips: Collection[int] = (), run: Run | None = None, **more: Any
    ) -> RunResult:
        told = [{"lr": rate, "weight_decay": 0.1, "fused": None, **more} for rate in rates]
        trace = make_trace(skips=skips)
        steps = tuple(replace(step, settings=(each,)) for step, each in zip(trace.steps, told, strict=True))
        return RunResult(
            run or Run(Arm.ORIGINAL, whole=True), ("python",), tmp_path, 0, 1.0, replace(trace, steps=steps)
        )

    return made


def late(by: int, since: int = 0) -> list[float]:
    """The schedule, so many steps later from some step on."""
    return [DECAYED[max(0, step - by)] if step >= since else DECAYED[step] for step in range(STEPS)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rates": [0.1] * STEPS}, "learning rate of optimizer step 10: 0.01 and 0.1, in all 3 seeds"),
        (
            {"rates": [*DECAYED[:15], *[0.015] * 5]},
            "learning rate of optimizer step 15: 0.01 and 0.015, in all 3 seeds",
        ),
        ({"rates": late(1)}, "learning rate of optimizer step 10: 0.01 and 0.1, in all 3 seeds"),
        ({"weight_decay": 0}, "weight_decay of optimizer step 0: 0.1 and 0, in all 3 seeds"),
        ({"fused": True}, ""),
        ({"betas": [0.9, 0.999]}, ""),  # another class of the same name
        ({}, ""),
    ],
)
def test_every_value_counts_at_every_step(trained: Trained, change: dict[str, Any], said: str) -> None:
    check = told_alike([(trained(), trained(**change)) for _ in range(3)], [trained()] * 3)
    assert check is not None
    assert check.status is (Status.FAIL if said else Status.PASS)
    assert check.detail == (said or "the same values at all 20 steps of 3 seeds")


@pytest.mark.parametrize(
    ("rates", "skips", "status"),
    [
        (late(2, since=6), (3, 5), Status.PASS),  # it waited for each step that was skipped
        (DECAYED, (3, 5), Status.PASS),  # it did not
        (late(3, since=6), (3, 5), Status.FAIL),
        (late(2, since=6), (15, 16), Status.FAIL),  # it waited before
        ([*DECAYED[:12], *[0.015] * 8], (3, 5), Status.FAIL),
    ],
)
def test_a_schedule_may_wait_for_steps_that_were_skipped(
    trained: Trained, rates: Sequence[float], skips: Sequence[int], status: Status
) -> None:
    check = told_alike([(trained(skips=skips), trained(rates, skips))] * 3, [trained(skips=skips)] * 3)
    assert check is not None
    assert check.status is status


def test_a_schedule_that_follows_the_losses_is_not_compared(trained: Trained) -> None:
    pairs = [(trained(), trained(FOLLOWING))] * 3
    following = told_alike(pairs, [trained(), trained(), trained(FOLLOWING)])
    assert following is not None
    assert following.status is Status.PASS
    assert following.detail.endswith("but for what rounding alone changes: learning rate")
    both = told_alike([(trained(), trained(FOLLOWING, weight_decay=0))] * 3, [trained(FOLLOWING)] * 3)
    assert both is not None
    assert both.detail.startswith("weight_decay of optimizer step 0: 0.1 and 0")


def test_what_differs_by_seed_is_no_fault_of_the_text(trained: Trained) -> None:
    pairs = [(trained(), trained(FOLLOWING)), (trained(), trained())]
    check = told_alike(pairs, [trained()] * 2)
    assert check is not None
    assert check.status is Status.PASS


def test_nothing_is_said_where_nothing_was_recorded(trained: Trained, make_trace: Make) -> None:
    bare = replace(trained(), trace=make_trace())
    assert told_alike([(bare, bare)], [bare]) is None


def test_it_is_part_of_the_verdict_and_ends_the_search(
    trained: Trained, make_evidence: Callable[..., Evidence]
) -> None:
    class Pool:
        def __init__(self) -> None:
            self.results: dict[Run, RunResult] = {}

        def make(self, runs: Sequence[Run]) -> None:
            for run in runs:
                self.results[run] = trained([0.1] * STEPS if run.arm is Arm.MIGRATED else DECAYED, run=run)

    evidence = ladder.train_whole(Pool(), make_evidence(), 5, DEFAULT)
    assert len(evidence.whole) == 5
    assessment = assess(evidence, Limits())
    checks = {check.title: check.status for check in assessment.checks}
    assert checks["optimizers are told the same along whole trainings"] is Status.FAIL
    # With mixed precision off the scripts were compared over their first steps only.
    assert assessment.cause == ""
    assert assessment.advice.startswith("`--steps 0` compares both scripts with mixed precision off to their ends")
    off = evidence.migrated_off
    assert off is not None
    to_the_end = replace(off, trace=replace(off.trace, stopped=False), returncode=0)
    assert assess(replace(evidence, migrated_off=to_the_end), Limits()).cause == "precision"


@pytest.mark.parametrize(
    ("rates", "twins", "status", "said"),
    [
        (DECAYED, 20, Status.PASS, "the same values at all 20 steps"),
        ([0.1] * STEPS, 20, Status.FAIL, "learning rate of optimizer step 10: 0.01 and 0.1, where rounding alone"),
        ([0.1] * STEPS, 10, Status.WARN, "learning rate of optimizer step 10: 0.01 and 0.1: a schedule may follow"),
        ([0.1] * STEPS, 0, Status.WARN, "optimizer step 10"),
    ],
)
def test_one_run_with_mixed_precision_on_is_told_what_the_original_is(
    trained: Trained, rates: Sequence[float], twins: int, status: Status, said: str
) -> None:
    rounded = [(trained().trace, replace(trained().trace, steps=trained().trace.steps[:twins]))] * min(twins, 1)
    check = told_in_one_run(trained().trace, trained(rates).trace, rounded)
    assert check is not None
    assert check.status is status
    assert said in check.detail


def test_what_rounding_alone_changes_is_not_compared_in_one_run(trained: Trained, make_trace: Make) -> None:
    rounded = [(trained().trace, trained(FOLLOWING).trace)]
    check = told_in_one_run(trained().trace, trained([0.1] * STEPS).trace, rounded)
    assert check is not None
    assert check.status is Status.PASS
    assert check.detail.endswith("steps, but for what rounding alone changes: learning rate")
    assert told_in_one_run(make_trace(), make_trace(), []) is None
