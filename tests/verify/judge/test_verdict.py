from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.verdict import Assessment, Limits, Verdict, assess
from amp_migrate.verify.recorded.recording import Checkpoint, Counted, Failure, Trace

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]
NONE = Limits()


def status(assessment: Assessment, id: str) -> Status:
    return next(check.status for check in assessment.checks if check.id == id)


def test_a_right_migration_passes_and_says_how_far(make_evidence: MakeEvidence) -> None:
    assessment = assess(make_evidence(), NONE)
    assert assessment.verdict is Verdict.PASS
    assert assessment.word == "PASS"
    assert assessment.sentence == (
        "with mixed precision off it is the same program to the bit over 20 steps; with it on, the first 20 losses are "
        "within what rounding does to the original"
    )
    assert assessment.cause == ""
    gates = [*(f"G{number}" for number in range(1, 11)), "G16"]
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
    assert migrated.advice == ""
    unknown = make_trace(stopped=False, failure=Failure("KeyError", "'half'", "train.py:9"))
    assert ".float()" in assess(make_evidence(migrated=unknown), NONE).advice
    both = assess(make_evidence(original=crashed, migrated=crashed), NONE)
    assert both.verdict is Verdict.ORIGINAL_FAILED
    assert both.advice.startswith("make the original run")


def test_what_torchrun_frames_with_lines_is_said_without_them(make_evidence: MakeEvidence, make_trace: Make) -> None:
    framed = "\n=======\ntrain.py FAILED\n-------\nexitcode : 1 -- rank 1\n=======\n"
    failed = make_trace(stopped=False, failure=Failure("ChildFailedError", framed, ""))
    sentence = assess(make_evidence(original=failed), NONE).sentence
    assert sentence.startswith("ChildFailedError: train.py FAILED exitcode : 1 -- rank 1 (log: ")


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


def test_what_limits_ask_for_is_met_by_just_that(make_evidence: MakeEvidence, make_trace: Make) -> None:
    evidence = make_evidence()
    slow = make_trace(milliseconds=(20.0,) * 40, memory={"peak_allocated": 2000})
    fast = make_trace(milliseconds=(10.0,) * 40, memory={"peak_allocated": 1000})
    pair = (replace(evidence.original, trace=slow), replace(evidence.migrated, trace=fast))
    timed = replace(evidence, timing=(pair, pair))
    assert assess(timed, Limits(min_speedup=2.0, max_memory_ratio=0.5)).verdict is Verdict.PASS


def test_a_timing_run_that_crashed_measures_nothing(make_evidence: MakeEvidence, make_trace: Make) -> None:
    evidence = make_evidence()
    long = replace(evidence.original, trace=make_trace(milliseconds=(20.0,) * 40))
    crashed = replace(long, trace=replace(long.trace, stopped=False))
    for pair in ((long, crashed), (crashed, long)):
        assert assess(replace(evidence, timing=(pair,)), NONE).speed is None
    assert assess(replace(evidence, timing=((long, long),)), NONE).speed is not None


def test_a_gpu_that_was_not_timed_is_named(make_evidence: MakeEvidence, make_trace: Make) -> None:
    on_gpu = make_trace(environment={**make_trace().environment, "stand_in": False})
    evidence = make_evidence(original=on_gpu)
    missing = "speed and memory: no timing run was long enough, or none was asked for"
    assert missing in assess(evidence, NONE).not_checked
    long = replace(evidence.original, trace=make_trace(milliseconds=(20.0,) * 40))
    assert missing not in assess(replace(evidence, timing=((long, long),)), NONE).not_checked


def test_a_failure_before_mixed_precision_was_switched_off_has_no_cause(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    shorter = make_trace(make_trace().losses[:-1], scale=1024.0)
    assessment = assess(make_evidence(migrated=shorter, migrated_off=None, reference=None), NONE)
    assert assessment.verdict is Verdict.FAIL
    assert assessment.sentence == "same number of steps: backward passes: 20 and 19; optimizer steps: 20 and 19"
    assert assessment.cause == assessment.suspicion == ""


def test_a_reference_that_crashed_leaves_the_early_window_open(make_evidence: MakeEvidence, make_trace: Make) -> None:
    assessment = assess(make_evidence(reference=replace(make_trace(), stopped=False)), NONE)
    assert assessment.verdict is Verdict.INCONCLUSIVE
    assert assessment.sentence.endswith("the original with the same steps skipped did not end well")


def test_made_up_data_and_what_was_not_compiled_are_named(make_evidence: MakeEvidence, make_trace: Make) -> None:
    original = make_trace(synthetic=("CIFAR10", "MNIST"), uncompiled=True)
    items = assess(make_evidence(original=original), NONE).not_checked
    assert "the script's own data: made-up pictures stood in for CIFAR10 and MNIST" in items
    assert any("torch.compile" in item for item in items)
    plain = assess(make_evidence(), NONE).not_checked
    assert not any("made-up pictures" in item or "torch.compile" in item for item in plain)


def test_nothing_vacuous_is_hidden_by_a_failure(make_evidence: MakeEvidence, make_trace: Make) -> None:
    float32 = make_trace([loss * 2 for loss in make_trace().losses])
    assert assess(make_evidence(migrated=float32), NONE).verdict is Verdict.VACUOUS


def test_what_a_stand_in_cannot_show_is_named_only_there(make_evidence: MakeEvidence, make_trace: Make) -> None:
    on_gpu = make_trace(environment={**make_trace().environment, "stand_in": False})
    words = "CUDA's casts were applied on the CPU"
    for original, named in ((make_trace(), True), (on_gpu, False)):
        items = assess(make_evidence(original=original), NONE).not_checked
        assert any(words in item for item in items) is named
        assert ("speed and memory: a CPU stood in for the GPU" in items) is named


def test_what_autocast_would_still_put_into_half_precision_is_said(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    def looks(half: int) -> tuple[Counted, ...]:
        return tuple(
            Counted(at, (("linear", "float16", 1, half), ("linear", "float32", 1, 100 - half))) for at in (0, 1)
        )

    def said(half: int, amp: bool = False) -> list[str]:
        original = make_trace(scale=1024.0 if amp else None)
        made = make_evidence(original=original, migrated=make_trace(scale=1024.0, counted=looks(half)))
        first, *others = made.oracles
        oracles = (replace(first, trace=replace(first.trace, counted=looks(98))), *others)
        assessment = assess(replace(made, oracles=oracles), NONE)
        return [item for item in assessment.not_checked if "half precision" in item]

    assert said(97) == []
    assert said(60) == ["whether more could be in half precision: 60% of the work, where autocast would give 98%"]
    assert said(60, amp=True) == []


def test_metrics_are_left_open_until_whole_trainings_show_one(make_evidence: MakeEvidence) -> None:
    evidence = make_evidence()
    assert "evaluation in mixed precision" in assess(evidence, NONE).not_checked
    pair = (evidence.original, evidence.original)
    items = assess(replace(evidence, whole=(pair,) * 3), NONE).not_checked
    assert "evaluation in mixed precision: no metric was printed or written" in items


def test_a_pass_on_few_steps_says_how_few_they_were(make_evidence: MakeEvidence, make_trace: Make) -> None:
    def few(count: int, stopped: bool = True) -> str:
        one = make_trace([2.0 / (i + 1) for i in range(count)])
        two = make_trace([2.001 / (i + 1) for i in range(count)], scale=1024.0)
        made = make_evidence(original=one, migrated=two, migrated_off=one, reference=one, floor=one)
        original = replace(made.original, returncode=0, trace=replace(one, stopped=stopped))
        assessment = assess(replace(made, original=original), NONE)
        assert assessment.verdict is Verdict.PASS
        return next((item for item in assessment.not_checked if "of 20 steps" in item), "")

    assert few(7) == "what shows after the first 7 of 20 steps: --steps 20"
    assert few(7, stopped=False) == "what shows after the first 7 of 20 steps: give the script more data or epochs"
    assert few(20) == ""


def test_what_comes_after_the_last_step_is_named_unless_the_script_ended_there(make_evidence: MakeEvidence) -> None:
    made = make_evidence()
    ended = replace(made.original, returncode=0, trace=replace(made.original.trace, stopped=False))
    named = "what comes after optimizer step 20, where the runs ended: --seconds, --steps"
    assert named in assess(made, NONE).not_checked
    assert named not in assess(replace(made, original=ended), NONE).not_checked


def test_who_saves_the_optimizer_is_told_that_nobody_has_seen_it_resume(
    make_evidence: MakeEvidence, make_trace: Make
) -> None:
    def said(*checkpoints: Checkpoint) -> bool:
        evidence = make_evidence(migrated=make_trace(scale=1024.0, checkpoints=checkpoints))
        return any("goes on from a checkpoint" in item for item in assess(evidence, NONE).not_checked)

    assert said(Checkpoint(optimizer=True, scaler=True))
    assert not said(Checkpoint(optimizer=False, scaler=False))
    assert not said()
