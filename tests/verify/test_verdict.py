from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.evidence import Evidence
from amp_migrate.verify.gates import Status
from amp_migrate.verify.trace import Failure, Trace
from amp_migrate.verify.verdict import Assessment, Limits, Verdict, assess

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]
NONE = Limits()


def status(assessment: Assessment, id: str) -> Status:
    return next(check.status for check in assessment.checks if check.id == id)


def test_a_right_migration_passes_and_says_how_far(make_evidence: MakeEvidence) -> None:
    assessment = assess(make_evidence(), NONE)
    assert assessment.verdict is Verdict.PASS
    assert assessment.word == "PASS (early window only)"
    assert assessment.cause == ""
    gates = [f"G{number}" for number in range(1, 11)]
    assert [check.id for check in assessment.checks] == [*gates, "E", "S", "N"]


def test_a_difference_with_amp_off_is_the_edit(make_evidence: MakeEvidence, make_trace: Make) -> None:
    losses = list(make_trace().losses)
    losses[3] += 1e-7
    assessment = assess(make_evidence(migrated_off=make_trace(losses)), NONE)
    assert assessment.verdict is Verdict.FAIL
    assert assessment.cause == "edit"
    assert "backward pass 3" in assessment.sentence


def test_a_machine_that_does_not_repeat_itself_only_warns(make_evidence: MakeEvidence, make_trace: Make) -> None:
    losses = list(make_trace().losses)
    noisy = [loss * (1 + 1e-6) for loss in losses]
    evidence = make_evidence(migrated_off=make_trace(noisy), repeats=[make_trace(noisy)] * 3)
    assessment = assess(evidence, NONE)
    assert assessment.verdict is Verdict.PASS
    assert status(assessment, "E") is Status.WARN
    assert status(assessment, "R") is Status.WARN


def test_a_difference_with_amp_on_is_the_precision(make_evidence: MakeEvidence, make_trace: Make) -> None:
    wrong = make_trace([loss * 1.5 for loss in make_trace().losses], scale=1024.0)
    assessment = assess(make_evidence(migrated=wrong), NONE)
    assert assessment.verdict is Verdict.FAIL
    assert assessment.cause == "precision"
    assert status(assessment, "E") is Status.PASS


def test_float32_on_both_sides_is_vacuous(make_evidence: MakeEvidence, make_trace: Make) -> None:
    evidence = make_evidence(migrated=make_trace(), migrated_off=None, reference=None)
    assessment = assess(evidence, NONE)
    assert assessment.verdict is Verdict.VACUOUS
    assert any("AMP off" in item for item in assessment.not_checked)


def test_a_crash_is_charged_to_the_script_that_crashed(make_evidence: MakeEvidence, make_trace: Make) -> None:
    failure = Failure("ValueError", "step() has already been called since the last update().", "train.py:9")
    crashed = make_trace(stopped=False, failure=failure)
    migrated = assess(make_evidence(migrated=crashed), NONE)
    assert migrated.verdict is Verdict.MIGRATED_FAILED
    assert migrated.sentence.startswith("train.py:9: ValueError: step() has already")
    assert "stderr.log" in migrated.sentence
    assert "update() is missing" in migrated.suspicion
    both = assess(make_evidence(original=crashed, migrated=crashed), NONE)
    assert both.verdict is Verdict.ORIGINAL_FAILED


def test_a_doubtful_window_without_further_seeds_is_inconclusive(make_evidence: MakeEvidence, make_trace: Make) -> None:
    doubtful = make_trace([loss * 1.02 for loss in make_trace().losses], scale=1024.0)
    assert assess(make_evidence(migrated=doubtful), NONE).verdict is Verdict.INCONCLUSIVE


def test_a_performance_gate_without_a_measurement_is_missed(make_evidence: MakeEvidence) -> None:
    assert assess(make_evidence(), Limits(min_speedup=1.1)).verdict is Verdict.TOO_SLOW
    assert assess(make_evidence(), Limits(max_memory_ratio=0.9)).verdict is Verdict.TOO_SLOW


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        (Limits(min_speedup=1.5), Verdict.PASS),
        (Limits(min_speedup=2.5), Verdict.TOO_SLOW),
        (Limits(max_memory_ratio=0.6), Verdict.PASS),
        (Limits(max_memory_ratio=0.4), Verdict.TOO_SLOW),
    ],
)
def test_performance_gates_hold_the_measured_ratios(
    make_evidence: MakeEvidence, make_trace: Make, limits: Limits, verdict: Verdict
) -> None:
    evidence = make_evidence()
    slow = make_trace(milliseconds=(20.0,) * 40, memory={"peak_allocated": 2000})
    fast = make_trace(milliseconds=(10.0,) * 40, memory={"peak_allocated": 1000})
    pair = (replace(evidence.original, trace=slow), replace(evidence.migrated, trace=fast))
    assert assess(replace(evidence, timing=(pair, pair)), limits).verdict is verdict


def test_exit_codes_are_the_documented_ones() -> None:
    assert {verdict.name: verdict.value for verdict in Verdict} == {
        "PASS": 0,
        "FAIL": 1,
        "INCONCLUSIVE": 3,
        "VACUOUS": 4,
        "ORIGINAL_FAILED": 5,
        "MIGRATED_FAILED": 6,
        "TOO_SLOW": 7,
    }
