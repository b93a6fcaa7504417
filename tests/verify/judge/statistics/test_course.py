"""The course of whole trainings: a fault that acts on the way and is made up for until the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.experiments import ladder
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.statistics.convergence import DEFAULT, Tolerance, converged
from amp_migrate.verify.judge.statistics.course import course
from amp_migrate.verify.judge.verdict import Limits, assess
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
Trained = Callable[..., RunResult]
ROUNDING = 0.001


@pytest.fixture
def trained(tmp_path: Path, make_trace: Make) -> Trained:
    """A training of ten passes whose losses in each fifth are off by something."""

    def made(seed: int, *off: float, run: Run | None = None) -> RunResult:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "stdout.log").touch()
        (folder / "stderr.log").touch()
        shifts = (*off, *(0.0,) * (5 - len(off)))
        losses = [5.0 - fifth + seed / 100 + shift for fifth, shift in enumerate(shifts) for _ in range(2)]
        return RunResult(run or Run(Arm.ORIGINAL, whole=True), ("python",), folder, 0, 1.0, make_trace(losses))

    return made


def rounded(trained: Trained, seed: int, run: Run | None = None) -> RunResult:
    return trained(seed, *(ROUNDING * (-1) ** (seed + fifth) for fifth in range(5)), run=run)


@pytest.mark.parametrize(
    ("off", "status"),
    [
        ((0.0,) * 5, Status.PASS),
        ((0.002, -0.002, 0.003, 0.001, -0.004), Status.PASS),
        ((0.2, 0.3, 0.02, 0.9, 0.05), Status.FAIL),
        ((-0.2, -0.3, -0.02, -0.9, -0.05), Status.FAIL),
        ((0.2, 0.3, 0.02, 0.9, 0.0), Status.INCONCLUSIVE),  # four of five
        ((0.2, 0.3, 0.02, 0.0, 0.0), Status.INCONCLUSIVE),
        ((0.2, 0.3, 0.0, 0.0, 0.0), Status.PASS),
        ((0.2, 0.3, -0.02, -0.9, 0.0), Status.PASS),  # a chaotic one, whose twins happened to be tame
        ((9.0, 0.0, 0.0, 0.0, 0.0), Status.PASS),
    ],
)
def test_nearly_every_seed_must_differ_the_same_way(trained: Trained, off: Sequence[float], status: Status) -> None:
    pairs = [(trained(seed), trained(seed, 0.0, each)) for seed, each in enumerate(off)]
    twins = [rounded(trained, seed) for seed in range(5)]
    check = course(pairs, twins, DEFAULT)
    assert check is not None
    assert check.status is status
    assert [one.status for one in converged(pairs, twins, DEFAULT)] == [Status.PASS]  # the end tells nothing of it
    if status is Status.FAIL:
        assert check.detail.startswith("loss of the second fifth: 5 of 5 seeds are off by more than 0.013, all on one")
    widened = course(pairs, twins, Tolerance(share=0.5))
    assert widened is not None
    assert widened.status is Status.PASS or max(map(abs, off)) > 2


def test_what_rounding_does_not_move_shows_nothing(trained: Trained) -> None:
    assert course([(trained(0), trained(0, 0.5))] * 5, [trained(0)] * 5, DEFAULT) is None
    assert course([], [], DEFAULT) is None


def test_how_little_would_have_been_seen_is_told(trained: Trained) -> None:
    pairs = [(trained(seed), trained(seed)) for seed in range(5)]
    check = course(pairs, [rounded(trained, seed) for seed in range(5)], DEFAULT)
    assert check is not None
    assert "off by 0.3% in every seed" in check.detail  # 13 times 0.001, of a loss of 5


@pytest.mark.parametrize(("faulty", "seeds"), [(range(10), 5), (range(1, 10), 10), ((0, 1, 2), 8), ((), 5)])
def test_more_seeds_are_run_while_the_course_is_open(
    trained: Trained, make_evidence: Callable[..., Evidence], faulty: Sequence[int], seeds: int
) -> None:
    class Trainings:
        def __init__(self) -> None:
            self.results: dict[Run, RunResult] = {}

        def make(self, runs: Sequence[Run]) -> None:
            for run in runs:
                seed = run.seed_index
                off = 0.1 * (run.arm is Arm.MIGRATED and seed in faulty)
                made = rounded(trained, seed, run) if run.oracle else trained(seed, 0.0, 0.0, off, run=run)
                self.results.setdefault(run, made)

    pool = Trainings()
    evidence = ladder.train_whole(pool, make_evidence(), 5, DEFAULT)
    assert len(evidence.whole) == seeds
    check = next(each for each in assess(evidence, Limits()).checks if each.title == "losses along whole trainings")
    assert check.status is (Status.FAIL if len(faulty) > 5 else Status.PASS)


def test_a_metric_that_is_missing_in_some_seeds_is_judged_by_the_others(trained: Trained) -> None:
    pairs = [(trained(seed), trained(seed, 0.0, 0.1)) for seed in range(6)]
    lost = replace(pairs[0][1], trace=replace(pairs[0][1].trace, backwards=()))
    check = course([(pairs[0][0], lost), *pairs[1:]], [rounded(trained, seed) for seed in range(6)], DEFAULT)
    assert check is not None
    assert check.status is Status.FAIL
