"""Faults that no loss of the first steps shows: each fails, by the check that looks at what it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess

pytestmark = pytest.mark.slow
RIGHT = (Path(__file__).parent / "scripts" / "fp16.py").read_text(encoding="utf-8")
REGION = (
    '    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n        loss = criterion(model(x), y)\n'
)
STEP = "    scaler.step(optimizer)\n"
UNSCALE = "    scaler.unscale_(optimizer)\n"


def changed(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "check", "said"),
    [
        pytest.param(
            changed("nn.BatchNorm2d(8)", "nn.BatchNorm2d(8, momentum=0.3)"),
            "E",
            "1.running_mean",
            id="momentum of a norm",
        ),
        pytest.param(
            changed("    print(step, loss.item())", "    print(step, loss.half().item())"),
            "E",
            "printed line 1",
            id="printed in half",
        ),
        pytest.param(
            changed(STEP, f"    if step == 15:\n        optimizer.param_groups[0]['lr'] *= 0.999\n{STEP}"),
            "E",
            "learning rate of optimizer step 15",
            id="another learning rate later",
        ),
        pytest.param(
            changed(REGION, f"{REGION}        half = (x[0, 0] @ x[0, 0]).dtype is torch.float16\n").replace(
                STEP, f"    if step == 5 and half:\n        optimizer.param_groups[0]['lr'] *= 0.999\n{STEP}"
            ),
            "G19",
            "learning rate of optimizer step 5",
            id="another learning rate in half precision only",
        ),
        pytest.param(
            changed("pictures = torch.randn", "torch.rand(1)\npictures = torch.randn"),
            "E",
            "backward pass 0",
            id="another random number",
        ),
        pytest.param(
            changed("scaler = torch", "torch.manual_seed(torch.initial_seed())\nscaler = torch"),
            "E",
            "seeding: no such call and torch.manual_seed",
            id="seeded again",
        ),
        pytest.param(
            changed(UNSCALE, f"    for p in model.parameters():\n        p.grad.nan_to_num_(0.0, 0.0, 0.0)\n{UNSCALE}"),
            "G17",
            "had been infinite",
            id="infinities taken away",
        ),
        pytest.param(changed("at + 32].cuda()", "at + 32]"), "G16", "fails on a GPU", id="labels left on the CPU"),
        pytest.param(
            changed(
                REGION,
                "    features = model[:4](x)\n" + REGION.replace("model(x)", "model[4](features)"),
            ),
            "G12",
            "of the work",
            id="only the head in half",
        ),
        pytest.param(
            changed(REGION, REGION.replace("dtype=torch.float16", "dtype=torch.float16, enabled=step < 4")),
            "G12",
            "of the work",
            id="half precision for some steps only",
        ),
    ],
)
def test_a_quiet_fault_fails_where_it_is(
    verify_fp32: Callable[[str], Evidence], text: str, check: str, said: str
) -> None:
    assessment = assess(verify_fp32(text), Limits())
    assert assessment.verdict is Verdict.FAIL, assessment.checks
    found = next(each for each in assessment.checks if each.id == check)
    assert found.status is Status.FAIL, assessment.checks
    assert said in found.detail
