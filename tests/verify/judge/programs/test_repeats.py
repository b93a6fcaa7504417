"""Originals that do not repeat themselves: nothing is charged to the migration that they do to themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs.repeats import repeats_check
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.setup import Setup

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]

SCRIPTS = Path(__file__).parents[2] / "scripts"


def times(trace: Trace, factor: float) -> Trace:
    return replace(trace, backwards=tuple(replace(one, loss=one.loss * factor) for one in trace.backwards))


def test_it_is_asked_only_where_runs_were_repeated(make_evidence: MakeEvidence, make_trace: Make) -> None:
    assert repeats_check(make_evidence()) is None
    found = repeats_check(make_evidence([make_trace()]))
    assert found is not None
    assert (found.status, found.detail) == (Status.PASS, "once more, bit for bit")


@pytest.mark.parametrize(("noise", "status"), [(1e-6, Status.WARN), (1e-2, Status.INCONCLUSIVE)])
def test_noise_counts_beside_what_rounding_makes(
    noise: float, status: Status, make_evidence: MakeEvidence, make_trace: Make
) -> None:
    repeats = [times(make_trace(), 1 + noise), make_trace(), times(make_trace(), 1 - noise)]
    evidence = make_evidence(repeats)
    assert evidence.own_noise == pytest.approx(2 * noise, rel=0.02)  # the two that are farthest apart
    found = repeats_check(evidence)
    assert found is not None
    assert found.status is status
    assert f"S = {evidence.own_noise:.2e}" in found.detail


def test_a_race_is_not_charged_to_the_migration(make_evidence: MakeEvidence, make_trace: Make) -> None:
    base = replace(make_trace(), ranks=2)
    raced = [times(base, factor) for factor in (1.01, 0.99, 1.0)]
    assessment = assess(make_evidence(raced, floor=base, migrated_off=times(base, 1.1)), Limits())
    assert assessment.verdict is Verdict.INCONCLUSIVE
    assert assessment.verdict.value == 3
    assert assessment.sentence.startswith("the original repeats itself: 3 more runs of it differ by up to S = 1.98e-02")
    assert assessment.sentence.endswith(
        "its 2 processes seem to race, and no run can be compared with another step by step"
    )
    assert assessment.cause == assessment.suspicion == ""


def test_a_difference_a_few_times_the_own_noise_is_left_open(make_evidence: MakeEvidence, make_trace: Make) -> None:
    repeats = [times(make_trace(), 1 + 1e-6)] * 3
    few, many = (make_evidence(repeats, migrated_off=times(make_trace(), 1 + far)) for far in (1e-5, 1e-4))
    assert assess(few, Limits()).sentence.startswith("AMP off")
    assert assess(few, Limits()).verdict is Verdict.INCONCLUSIVE
    assert assess(many, Limits()).verdict is Verdict.FAIL


def test_what_no_race_makes_still_fails(make_evidence: MakeEvidence, make_trace: Make) -> None:
    raced = [times(make_trace(), factor) for factor in (1.01, 0.99, 1.0)]
    far = times(make_trace(scale=1024.0), 3.0)
    assert assess(make_evidence(raced, migrated_off=far, migrated=far), Limits()).verdict is Verdict.FAIL
    halves = make_trace(scale=1024.0)
    halves = replace(halves, backwards=tuple(replace(one, half=("NllLoss",)) for one in halves.backwards))
    assert assess(make_evidence(raced, migrated_off=raced[0], migrated=halves), Limits()).verdict is Verdict.FAIL


def test_runs_of_different_lengths_are_told(make_evidence: MakeEvidence, make_trace: Make) -> None:
    short = make_trace(make_trace().losses[:-2])
    assessment = assess(make_evidence([short] * 3, migrated_off=short), Limits())
    assert assessment.verdict is Verdict.INCONCLUSIVE
    assert "its runs make " in assessment.sentence


@pytest.mark.slow
def test_a_script_of_other_random_numbers_each_time_is_found_out(
    make_setup: Callable[[Path, Path, Path], Setup], forks: Forks, tmp_path: Path
) -> None:
    scripts = [tmp_path / name for name in ("fp32.py", "fp16.py")]
    for script in scripts:
        text = (SCRIPTS / script.name).read_text(encoding="utf-8")
        assert "torch.manual_seed(3)" in text
        seed = "int.from_bytes(__import__('os').urandom(4), 'big')"
        script.write_text(text.replace("manual_seed(3)", f"manual_seed({seed})"), encoding="utf-8")
    setup = make_setup(scripts[0], scripts[1], tmp_path)
    assessment = assess(climb(Pool(setup, lambda result: None, forks=forks), timing_pairs=0), Limits())
    assert assessment.verdict is Verdict.INCONCLUSIVE
    assert assessment.sentence.startswith("the original repeats itself: 3 more runs of it differ")


def test_only_failed_comparisons_are_excused_and_the_reason_stands_first(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    raced = [times(make_trace(), factor) for factor in (1.01, 0.99, 1.0)]
    shorter = make_trace(make_trace().losses[:-1], scale=1024.0)
    checks = assess(make_evidence(raced, migrated_off=shorter, migrated=shorter), Limits()).checks
    assert checks[0].id == "R"
    found = {check.id: check.status for check in checks}
    assert [found["G2"], found["E"]] == [Status.INCONCLUSIVE] * 2
    assert [found["G1"], found["G4"], found["S"], found["N"]] == [Status.PASS] * 4


def test_noise_that_is_only_warned_of_stands_before_what_it_excuses(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    noisy = times(make_trace(), 1 + 1e-6)
    ids = [check.id for check in assess(make_evidence([noisy] * 3, migrated_off=noisy), Limits()).checks]
    assert ids[-4:] == ["R", "E", "S", "N"]


def test_an_original_that_does_not_always_end_well_is_told(make_evidence: MakeEvidence, make_trace: Make) -> None:
    found = repeats_check(make_evidence([make_trace(), replace(make_trace(), stopped=False)]))
    assert found is not None
    assert (found.status, found.detail) == (Status.INCONCLUSIVE, "it does not always end well: exit status 1")


def test_one_window_far_away_is_enough_to_be_certain(make_evidence: MakeEvidence, make_trace: Make) -> None:
    raced = [times(make_trace(), factor) for factor in (1.01, 0.99, 1.0)]
    far = times(make_trace(scale=1024.0), 3.0)
    evidence = make_evidence(raced, migrated_off=far, migrated=far)
    near = (evidence.original, replace(evidence.original))
    assert assess(replace(evidence, further=(near,)), Limits()).verdict is Verdict.FAIL


def test_noise_without_a_race_is_looked_for_elsewhere(make_evidence: MakeEvidence, make_trace: Make) -> None:
    found = repeats_check(make_evidence([times(make_trace(), 1.01)] * 3))
    assert found is not None
    assert found.detail.endswith(
        ": look for threads, clocks and random numbers of other sources; no run can be compared with another"
    )


def test_without_a_noise_floor_nothing_is_certain(make_evidence: MakeEvidence, make_trace: Make) -> None:
    short = make_trace(make_trace().losses[:-2])
    far = times(make_trace(scale=1024.0), 3.0)
    evidence = make_evidence([short] * 3, migrated_off=far, migrated=far)
    assert assess(evidence, Limits()).verdict is Verdict.FAIL
    crashed = tuple(replace(run, trace=replace(run.trace, stopped=False)) for run in evidence.oracles)
    without = replace(evidence, oracles=crashed)
    assert assess(without, Limits()).verdict is Verdict.INCONCLUSIVE
