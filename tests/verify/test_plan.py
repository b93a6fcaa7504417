from __future__ import annotations

from amp_migrate.verify import plan
from amp_migrate.verify.plan import Arm, Run


def test_an_fp32_original_is_its_own_full_precision_form() -> None:
    runs = plan.reference_runs(original_uses_amp=False)
    assert plan.full_precision(False) == plan.ORIGINAL
    assert plan.ORIGINAL not in runs
    assert [run.seed_index for run in runs if run.oracle] == [0, 1, 2]
    assert sum(run.arm is Arm.MIGRATED for run in runs) == 1


def test_an_original_with_amp_is_also_run_with_amp_off() -> None:
    runs = plan.reference_runs(original_uses_amp=True)
    assert Run(Arm.ORIGINAL, amp_off=True) in runs
    assert all(run.amp_off for run in runs)


def test_every_run_has_a_name_of_its_own() -> None:
    runs = [
        plan.ORIGINAL,
        plan.MIGRATED,
        *plan.reference_runs(True),
        *plan.reference_runs(False),
        plan.same_skips(plan.ORIGINAL, (1,)),
        Run(Arm.ORIGINAL, again=1),
        *plan.timing_runs(3),
    ]
    names = {run.name for run in dict.fromkeys(runs)}
    assert len(names) == len(set(runs))


def test_timing_runs_alternate_who_goes_first() -> None:
    arms = [run.arm.value[0] for run in plan.timing_runs(4)]
    assert "".join(arms) == "ommoommo"
