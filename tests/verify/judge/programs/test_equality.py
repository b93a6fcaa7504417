"""With mixed precision off, the losses are equal bit for bit, or it is said where they are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs.equality import differences, equality_check, first_difference
from amp_migrate.verify.recorded.recording import Checkpoint, Held, State, Trace
from amp_migrate.verify.runs.process import RunResult

Make = Callable[..., Trace]
MakeEvidence = Callable[..., Evidence]


@pytest.mark.parametrize(
    ("ours", "theirs", "index"),
    [
        ((1.0, 2.0), (1.0, 2.0), None),
        ((1.0, math.nan), (1.0, math.nan), None),
        ((1.0, math.nan), (1.0, 2.0), 1),
        ((1.0, 2.0), (1.0, math.nan), 1),
        ((1.0, 2.0), (1.0, math.nextafter(2.0, 3.0)), 1),
        ((1.0, 2.0), (1.0,), 1),
        ((1.0,), (1.0, math.nan), 1),
        ((), (), None),
    ],
)
def test_the_first_loss_that_differs_or_is_missing(
    ours: tuple[float, ...], theirs: tuple[float, ...], index: int | None
) -> None:
    assert first_difference(ours, theirs) == index


def test_a_run_that_ends_early_has_no_such_pass(make_evidence: MakeEvidence, make_trace: Make) -> None:
    short = make_evidence(migrated_off=make_trace(make_trace().losses[:-1]))
    assert [each.values for each in differences(short)] == [("20", "19"), ("20", "19")]
    check = equality_check(short)
    assert check.status is Status.FAIL
    assert check.detail == "first difference: backward passes: 20 and 19"


@pytest.mark.parametrize("arm", ["floor", "migrated_off"])
def test_a_run_that_crashes_with_mixed_precision_off_fails(
    arm: str, make_evidence: MakeEvidence, make_trace: Make
) -> None:
    check = equality_check(make_evidence(**{arm: replace(make_trace(), stopped=False)}))
    assert check.status is Status.FAIL
    assert "did not end well: exit status 1" in check.detail


def test_noise_excuses_no_run_of_another_length(make_evidence: MakeEvidence, make_trace: Make) -> None:
    noisy = make_trace([loss * (1 + 1e-6) for loss in make_trace().losses])
    shorter = make_trace(noisy.losses[:-1])
    assert equality_check(make_evidence([noisy] * 3, migrated_off=noisy)).status is Status.WARN
    assert equality_check(make_evidence([noisy] * 3, migrated_off=shorter)).status is Status.FAIL


def test_the_noise_that_excuses_a_difference_is_told(make_evidence: MakeEvidence, make_trace: Make) -> None:
    noisy = make_trace([loss * (1 + 1e-6) for loss in make_trace().losses])
    detail = equality_check(make_evidence([noisy] * 3, migrated_off=noisy)).detail
    assert detail.endswith("; S = 1.00e-06, and 1.00e-06 of the original against itself")


def _twins(evidence: Evidence, *traces: Trace) -> Evidence:
    """The evidence with runs of the original that are an ulp off."""
    return replace(evidence, twins=tuple(replace(evidence.floors[0], trace=each) for each in traces))


def _off(losses: Sequence[float], **apart: float) -> list[float]:
    """Losses of which some are apart: `at3=0.01` is the fourth, by one per cent."""
    return [loss * (1 + apart.get(f"at{index}", 0.0)) for index, loss in enumerate(losses)]


@pytest.mark.parametrize(
    ("apart", "status", "said"),
    [
        ({"at18": 0.1}, Status.WARN, "up to 9.1e-02 apart, and 1.4e-01 would be rounding"),
        ({"at18": 0.2}, Status.FAIL, "1.7e-01 apart at backward pass 18, where an ulp makes 4.8e-02"),
        ({"at0": 6e-5}, Status.WARN, "rounded otherwise"),  # as another order of summing makes
        ({"at3": 0.01, "at18": 0.1}, Status.FAIL, "9.9e-03 apart at backward pass 3, where an ulp makes 3.0e-05"),
    ],
)
def test_what_an_ulp_grows_into_later_excuses_nothing_earlier(
    make_evidence: MakeEvidence, make_trace: Make, apart: dict[str, float], status: Status, said: str
) -> None:
    losses = make_trace().losses
    evidence = make_evidence(migrated_off=make_trace(_off(losses, **apart)))
    twins = (make_trace(_off(losses, at0=1e-7, at15=0.05)), make_trace(_off(losses, at3=2e-6)))
    check = equality_check(_twins(evidence, *twins))
    assert check.status is status
    assert said in check.detail


def test_where_an_ulp_stays_one_little_is_excused(make_evidence: MakeEvidence, make_trace: Make) -> None:
    losses = make_trace().losses
    evidence = make_evidence(migrated_off=make_trace(_off(losses, at0=1e-5)))
    check = equality_check(_twins(evidence, make_trace(_off(losses, at0=1e-7))))
    assert check.status is Status.FAIL


@pytest.mark.parametrize(
    ("apart", "status"),
    [(0.0, Status.WARN), (5e-4, Status.WARN), (2e-3, Status.FAIL)],
)
def test_a_loss_that_rounding_moves_far_excuses_nothing_of_most_tensors(
    make_evidence: MakeEvidence, make_trace: Make, apart: float, status: Status
) -> None:
    losses = make_trace().losses

    def off(share: float, loss: float) -> Trace:
        moments = tuple(
            Held(f"{i}.exp_avg", "float32", (1,), f"{share}", (1e-8 * (1 + share) + 1e-7 * (i == 2) * share,))
            for i in range(3)
        )
        state = State("1", 1, models=(), optimizers=((*moments, Held("0.step", "float32", (), "", (1.0,))),))
        return make_trace(_off(losses, at2=loss), states=(state,))

    evidence = make_evidence(migrated_off=off(apart, 1e-7), floor=off(0.0, 0.0))
    check = equality_check(_twins(evidence, off(1e-4, 0.01)))
    assert check.status is status
    assert ("most tensors among optimizer state after step 1" in check.detail) is (status is Status.FAIL)


@pytest.mark.parametrize(
    ("said", "again", "status"),
    [
        ("loss 1.0 in 7", "loss 1.0 in 7", Status.PASS),
        ("loss 1.00001 in 7", "loss 1.0 in 7", Status.WARN),
        ("loss 1.01 in 7", "loss 1.0 in 7", Status.FAIL),
        ("loss 1.0\nin 9", "loss 1.0\nin 8", Status.PASS),
        ("loss 1.01\nin 9", "loss 1.0\nin 8", Status.INCONCLUSIVE),
    ],
)
def test_what_rounding_makes_in_training_excuses_no_print_where_training_is_the_same(
    make_evidence: MakeEvidence, make_trace: Make, tmp_path: Path, said: str, again: str, status: Status
) -> None:
    def printing(run: RunResult, text: str, trace: Trace | None = None) -> RunResult:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))} runs"
        folder.mkdir()
        (folder / "stdout.log").write_text(text)
        return replace(run, folder=folder, trace=trace or run.trace)

    evidence = make_evidence(migrated_off=make_trace())
    assert evidence.migrated_off is not None
    text = again.replace("8", "7")
    floor = printing(evidence.floors[0], text)
    chaotic = make_trace(_off(make_trace().losses, at0=1e-7, at1=0.1))
    check = equality_check(
        replace(
            evidence,
            floors=(floor,),
            repeats=(printing(floor, again),),
            migrated_off=printing(evidence.migrated_off, said),
            twins=(printing(floor, text.replace("1.0", "1.1"), chaotic),),
        )
    )
    assert check.status is status


@pytest.mark.parametrize(
    ("share", "loss", "status"),
    [
        (1e-5, 0.0, Status.WARN),
        (1e-4, 0.0, Status.FAIL),
        (1e-4, 1e-7, Status.WARN),  # training is rounded otherwise, and rounding has grown as far elsewhere
    ],
)
def test_what_is_saved_of_a_training_that_is_the_same_has_no_rounding_grown_in_it(
    make_evidence: MakeEvidence, make_trace: Make, share: float, loss: float, status: Status
) -> None:
    def saving(average: float, moment: float, loss: float) -> Trace:
        entries = tuple(
            (name, ["float32", [1], f"{value}", [value]]) for name, value in (("ema.0", average), ("m.0", moment))
        )
        return make_trace(_off(make_trace().losses, at2=loss), checkpoints=(Checkpoint(True, False, 5, entries),))

    evidence = make_evidence(floor=saving(1.0, 1.0, 0.0), migrated_off=saving(1 + share, 1.0, loss))
    check = equality_check(_twins(evidence, saving(1.0, 1.5, 1e-7)))
    assert check.status is status
    assert ("no loss and no step differs" in check.detail) is (loss == 0)
