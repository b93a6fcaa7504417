from __future__ import annotations

import pytest
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run


def test_an_fp32_original_is_its_own_full_precision_form() -> None:
    runs = kinds.reference_runs(original_uses_amp=False)
    assert kinds.full_precision(False) == kinds.ORIGINAL
    assert kinds.ORIGINAL not in runs
    assert [run.oracle for run in runs if run.oracle] == [1, 2]
    assert [run.name for run in runs if run.arm is Arm.MIGRATED] == [
        "migrated, AMP off",
        "migrated, results 10% larger",
    ]


def test_an_original_with_amp_is_also_run_with_amp_off() -> None:
    runs = kinds.reference_runs(original_uses_amp=True)
    assert Run(Arm.ORIGINAL, amp_off=True, unseen=True, program=True, census=True, ranges=True) in runs
    assert all(run.amp_off for run in runs if run != kinds.PLANT)


def test_every_run_has_a_name_of_its_own() -> None:
    runs = [
        kinds.ORIGINAL,
        kinds.MIGRATED,
        *kinds.reference_runs(True),
        *kinds.reference_runs(False),
        kinds.same_skips(kinds.ORIGINAL, (1,)),
        Run(Arm.ORIGINAL, again=1),
        *kinds.timing_runs(3),
    ]
    names = {run.name for run in dict.fromkeys(runs)}
    assert len(names) == len(set(runs))


def test_timing_runs_alternate_who_goes_first() -> None:
    arms = [run.arm.value[0] for run in kinds.timing_runs(4)]
    assert "".join(arms) == "ommoommo"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (Run(Arm.ORIGINAL), "original"),
        (Run(Arm.MIGRATED, amp_off=True, seed_index=2), "migrated, AMP off, seed 2"),
        (Run(Arm.ORIGINAL, oracle=1, skips=(0, 1), again=1), "original, oracle, same skips, again 1"),
        (kinds.oracle_of(kinds.ORIGINAL, 2), "original, oracle 2"),
        (kinds.ulp_of(kinds.ORIGINAL, 1), "original, an ulp off 1"),
        (kinds.DRILL, "migrated, drill"),
        (kinds.MIGRATED_UNSCALED, "migrated, AMP and scaling off"),
        (Run(Arm.ORIGINAL, variants=("fused",), arguments=("-b", "8")), "original, fused, -b, 8"),
        (Run(Arm.MIGRATED, bfloat16=True, parts=True), "migrated, bfloat16, part by part"),
        (Run(Arm.MIGRATED, islands=((0, "a"), (0, "b"))), "migrated, 2 in float32"),
        (Run(Arm.ORIGINAL, tf32=True, timing=True), "original, TF32 on, timing"),
        (Run(Arm.ORIGINAL, tf32=False, timing=True, phases=True), "original, TF32 off, phases"),
        (Run(Arm.ORIGINAL, timing=True, anatomy=True), "original, anatomy"),
        (Run(Arm.MIGRATED, whole=True, seed_index=1), "migrated, whole, seed 1"),
    ],
)
def test_a_name_says_what_is_different_about_a_run(run: Run, name: str) -> None:
    assert run.name == name
