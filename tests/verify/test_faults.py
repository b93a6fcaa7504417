"""Right migrations pass; a migration with a fault fails, and the fault is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.verdict import Assessment, Limits, Verdict, assess

# One process runs the originals once, for all of these tests.
pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "scripts"
RIGHT = (SCRIPTS / "fp16.py").read_text(encoding="utf-8")
VerifyText = Callable[[str], Evidence]


def changed(*replacements: tuple[str, str]) -> str:
    """The right float16 migration with a fault put in."""
    text = RIGHT
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def judged(evidence: Evidence) -> Assessment:
    return assess(evidence, Limits())


@pytest.mark.parametrize("script", ["fp16.py", "bf16.py"])
def test_a_right_migration_passes(verify_fp32: VerifyText, script: str) -> None:
    assessment = judged(verify_fp32((SCRIPTS / script).read_text(encoding="utf-8")))
    assert assessment.verdict is Verdict.PASS, assessment.checks
    assert {check.status.value for check in assessment.checks} == {"pass"}


def test_a_start_at_a_scale_that_overflows_passes_too(verify_fp32: VerifyText) -> None:
    text = changed(('torch.amp.GradScaler("cuda")', 'torch.amp.GradScaler("cuda", init_scale=2.0**22)'))
    evidence = verify_fp32(text)
    assert evidence.migrated.trace.skips
    assert evidence.reference is not None
    assert evidence.reference.trace.skips == evidence.migrated.trace.skips
    assert judged(evidence).verdict is Verdict.PASS, judged(evidence).checks


@pytest.mark.parametrize(
    ("fault", "suspicion", "cause"),
    [
        pytest.param(
            changed(("    scaler.unscale_(optimizer)\n", "")),
            "clipped before scaler.unscale_()",
            "scaling",
            id="clip before unscale",
        ),
        pytest.param(
            changed(
                ("    scaler.unscale_(optimizer)\n", ""),
                ("    scaler.step(optimizer)\n    scaler.update()\n", "    optimizer.step()\n"),
            ),
            "used without scaler.unscale_()",
            "scaling",
            id="never unscaled",
        ),
        pytest.param(
            changed(("    optimizer.zero_grad()\n", "")),
            "gradients are not zeroed before step 1",
            "edit",
            id="gradients never zeroed",
        ),
        pytest.param(
            changed(("criterion(model(x), y)", "criterion(model(x).half().float(), y)")),
            "with autocast off half() still runs in half precision",
            "casts",
            id="cast by hand",
        ),
        pytest.param(
            changed(
                ('    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n', ""),
                ("        loss = criterion", "    loss = criterion"),
                (
                    "for step in range(args.steps):\n",
                    'torch.amp.autocast(device_type="cuda", dtype=torch.float16).__enter__()\n'
                    "for step in range(args.steps):\n",
                ),
            ),
            "spans optimizer.step()",
            "precision",
            id="autocast round the loop",
        ),
    ],
)
def test_a_fault_in_training_fails_and_is_named(
    verify_fp32: VerifyText, fault: str, suspicion: str, cause: str
) -> None:
    assessment = judged(verify_fp32(fault))
    assert assessment.verdict is Verdict.FAIL, assessment.checks
    assert suspicion in assessment.suspicion
    assert assessment.cause == cause


def test_autocast_left_out_is_vacuous(verify_fp32: VerifyText) -> None:
    text = changed(("dtype=torch.float16)", "dtype=torch.float16, enabled=False)"))
    assessment = judged(verify_fp32(text))
    assert assessment.verdict is Verdict.VACUOUS
    assert "float32" in assessment.sentence


def test_a_missing_update_is_named(verify_fp32: VerifyText) -> None:
    assessment = judged(verify_fp32(changed(("    scaler.update()\n", ""))))
    assert assessment.verdict is Verdict.MIGRATED_FAILED
    assert "migrated.py:" in assessment.sentence
    assert "scaler.update() is missing" in assessment.suspicion


def test_a_step_that_is_left_out_is_counted(verify_fp32: VerifyText) -> None:
    text = changed(("    scaler.step(optimizer)\n", "    scaler.step(optimizer) if step % 2 else None\n"))
    assessment = judged(verify_fp32(text))
    assert assessment.verdict is Verdict.FAIL
    assert "same number of steps" in assessment.sentence
