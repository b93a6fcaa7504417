"""Which runs a verification makes: further ones only where they could change the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
Answer = Callable[[Run], Trace]


@dataclass
class FakePool:
    """Answers each run from a function of it."""

    answer: Answer
    results: dict[Run, RunResult] = field(default_factory=dict)
    setup: Any = field(default_factory=lambda: SimpleNamespace(seconds=0.0, dtype="", resume=()))

    def make(self, runs: Iterable[Run]) -> None:
        for run in runs:
            trace = self.answer(run)
            returncode = 0 if trace.stopped else 1
            made = RunResult(run, ("python",), Path("nowhere"), returncode, 1.0, replace(trace, stopped=False))
            self.results.setdefault(run, made)


@pytest.fixture
def right(make_trace: Make) -> Answer:
    """What a right migration does."""
    base = make_trace()

    def answer(run: Run) -> Trace:
        if run.oracle:
            return make_trace([loss * 1.001 for loss in base.losses])
        if run.arm is Arm.MIGRATED and not run.amp_off:
            return make_trace([loss * 1.0005 for loss in base.losses], scale=1024.0)
        return base

    return answer


def climbed(answer: Answer, timing_pairs: int = 0) -> tuple[Any, list[Run]]:
    pool: Any = FakePool(answer)
    evidence = climb(pool, timing_pairs)
    assert [result.run for result in evidence.all] == list(pool.results)
    return evidence, list(pool.results)


def test_both_scripts_go_on_from_what_they_saved_where_that_is_asked(right: Answer) -> None:
    pool: Any = FakePool(right)
    pool.setup.resume = ("--resume", "last.pt")
    evidence = climb(pool, 0)
    assert [result.run for result in evidence.going_on] == [kinds.going_on(arm, pool.setup.resume) for arm in Arm]
    assert not climbed(right)[0].going_on


FIRST = [kinds.ORIGINAL, kinds.MIGRATED]


def test_a_right_migration_takes_the_fewest_runs(right: Answer) -> None:
    evidence, made = climbed(right, timing_pairs=3)
    assert made == [*FIRST, *kinds.reference_runs(False), kinds.DRILL]
    assert evidence.reference is evidence.original
    assert (evidence.repeats, evidence.further, evidence.timing) == ((), (), ())


@pytest.mark.parametrize("arm", list(Arm))
def test_nothing_follows_a_crash(right: Answer, arm: Arm) -> None:
    _, made = climbed(lambda run: replace(right(run), stopped=run.arm is not arm))
    assert made == FIRST


@pytest.mark.parametrize("steps", [4, 20])
def test_nothing_follows_where_nothing_could_be_shown(make_trace: Make, steps: int) -> None:
    _, made = climbed(lambda run: make_trace([1.0] * steps, scale=64.0 if steps == 4 else None))
    assert made == FIRST


def test_an_original_in_mixed_precision_is_held_against_itself_without(right: Answer, make_trace: Make) -> None:
    def answer(run: Run) -> Trace:
        return make_trace(scale=64.0) if run == kinds.ORIGINAL else right(run)

    evidence, made = climbed(answer)
    assert made == [*FIRST, *kinds.reference_runs(True)]
    assert all(floor.run.amp_off for floor in evidence.floors)


def test_steps_that_the_scaler_skips_are_left_out_of_the_reference(right: Answer, make_trace: Make) -> None:
    def answer(run: Run) -> Trace:
        if run == kinds.MIGRATED:
            return make_trace(scale=64.0, skips=(0, 1))
        return right(run)

    evidence, made = climbed(answer)
    assert evidence.reference.run == kinds.same_skips(kinds.ORIGINAL, (0, 1))
    assert made == [*FIRST, kinds.MIGRATED_OFF, evidence.reference.run, *kinds.reference_runs(False)[1:], kinds.DRILL]


@pytest.mark.parametrize(("noise", "repeats"), [(0.0, 1), (1e-9, 3)])
def test_an_original_repeats_itself_where_the_edit_changed_the_losses(
    right: Answer, make_trace: Make, noise: float, repeats: int
) -> None:
    def answer(run: Run) -> Trace:
        if run.again:
            return make_trace([loss * (1 + noise * run.again) for loss in make_trace().losses])
        return make_trace([1.0] * 20) if run == kinds.MIGRATED_OFF else right(run)

    evidence, _ = climbed(answer)
    again = [replace(kinds.ORIGINAL, again=number, census=False, ranges=False) for number in range(1, repeats + 1)]
    assert [repeat.run for repeat in evidence.repeats] == again


def test_an_original_that_crashes_when_it_repeats_itself_is_run_three_times(right: Answer, make_trace: Make) -> None:
    def answer(run: Run) -> Trace:
        if run.again:
            return replace(make_trace(), stopped=False)
        return make_trace([1.0] * 20) if run == kinds.MIGRATED_OFF else right(run)

    assert len(climbed(answer)[0].repeats) == 3


@pytest.mark.parametrize(("far", "seeds"), [(0.00299, []), (0.0031, [1, 2]), (0.0299, [1, 2]), (0.031, [])])
def test_further_seeds_are_run_in_doubt_only(right: Answer, make_trace: Make, far: float, seeds: list[int]) -> None:
    def answer(run: Run) -> Trace:
        if run == kinds.MIGRATED:
            return make_trace([loss * (1 + far) for loss in make_trace().losses], scale=64.0)
        return right(run)

    evidence, _ = climbed(answer)
    assert [migrated.run.seed_index for _, migrated in evidence.further] == seeds
    assert [reference.run.seed_index for reference, _ in evidence.further] == seeds
    assert len(evidence.windows) == 1 + len(seeds)


def test_only_a_gpu_is_timed(right: Answer) -> None:
    def on_gpu(run: Run) -> Trace:
        return replace(right(run), environment={"stand_in": False, "capability": [7, 5]}, milliseconds=(10.0,) * 40)

    evidence, _ = climbed(on_gpu, timing_pairs=2)
    assert [(a.run, b.run) for a, b in evidence.timing] == [
        (kinds.timing(kinds.ORIGINAL, index), kinds.timing(kinds.MIGRATED, index)) for index in range(2)
    ]
    assert climbed(on_gpu)[0].timing == ()


def test_no_further_seeds_are_run_where_the_reference_crashed(right: Answer, make_trace: Make) -> None:
    def answer(run: Run) -> Trace:
        if run == kinds.MIGRATED:
            return make_trace(scale=64.0, skips=(0,))
        return replace(right(run), stopped=not run.skips)

    evidence, _ = climbed(answer)
    assert (evidence.windows, evidence.further) == ((), ())
