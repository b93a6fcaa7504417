"""AMP628: regions of a dtype that autocast did not have on their device yet."""

from __future__ import annotations

from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings


def told(call: str, torch: tuple[int, int], dtype: Dtype = Dtype.FP16) -> list[tuple[str, str]]:
    text = dedent(
        f"""\
        import torch

        def predict(model, x, device, dtype):
            with {call}:
                return model(x)
        """
    )
    plan = migrate_text(text, Settings(target_torch=torch, select=("AMP6",), dtype=dtype))
    assert plan.after == text
    assert {(each.code, each.line) for each in plan.findings} <= {("AMP628", 4)}
    return [(each.message, each.hint) for each in plan.findings]


@pytest.mark.parametrize(
    ("call", "torch", "message", "hint"),
    [
        (
            'torch.autocast("cpu", dtype=torch.float16)',
            (2, 1),
            "PyTorch 2.1 has no torch.float16 under autocast on cpu, and switches this region off",
            "compute in torch.bfloat16, or require PyTorch 2.2 (--target-torch 2.2)",
        ),
        (
            "torch.cpu.amp.autocast(True, torch.half)",
            (1, 12),
            "PyTorch 1.12 has no torch.float16 under autocast on cpu, and switches this region off",
            "compute in torch.bfloat16, or require PyTorch 2.2 (--target-torch 2.2)",
        ),
        (
            'torch.autocast("mps", dtype=torch.bfloat16)',
            (2, 5),
            "PyTorch 2.5 has no torch.bfloat16 under autocast on mps, and switches this region off",
            "compute in torch.float16, or require PyTorch 2.6 (--target-torch 2.6)",
        ),
        (
            'torch.amp.autocast(device_type="mps", dtype=torch.float16)',
            (2, 4),
            "PyTorch 2.4 has no torch.float16 under autocast on mps, and raises RuntimeError here",
            "require PyTorch 2.5 (--target-torch 2.5)",
        ),
    ],
)
def test_a_dtype_that_came_later_is_told(call: str, torch: tuple[int, int], message: str, hint: str) -> None:
    assert told(call, torch) == [(message, hint)]


@pytest.mark.parametrize(
    ("call", "torch"),
    [
        ('torch.autocast("cpu", dtype=torch.float16)', (2, 2)),
        ('torch.autocast("cpu", dtype=torch.bfloat16)', (1, 12)),
        ('torch.autocast("cpu")', (1, 12)),
        ('torch.autocast("cpu", dtype=dtype)', (1, 12)),
        ('torch.autocast("cpu", dtype=torch.float16, enabled=False)', (1, 12)),
        ('torch.autocast("cpu", dtype=torch.float32)', (2, 1)),
        ('torch.autocast("mps", dtype=torch.float16)', (2, 5)),
        ('torch.autocast("mps", dtype=torch.bfloat16)', (2, 6)),
        ('torch.autocast("cuda", dtype=torch.bfloat16)', (1, 12)),
        ('torch.autocast("xpu", dtype=torch.float16)', (1, 12)),
        ("torch.autocast(device, dtype=torch.float16)", (1, 12)),
    ],
)
def test_what_that_pytorch_has_or_what_cannot_be_read_is_right(call: str, torch: tuple[int, int]) -> None:
    assert told(call, torch) == []


def test_what_goes_to_bfloat16_is_told_of_bfloat16() -> None:
    text = 'import torch\n\nwith torch.autocast("mps", dtype=torch.float16):\n    y = model(x)\n'
    plan = migrate_text(text, Settings(target_torch=(2, 5), dtype=Dtype.BF16))
    assert [each.message[:30] for each in plan.findings if each.code == "AMP628"] == ["PyTorch 2.5 has no torch.bfloa"]


def test_float16_on_the_cpu_stays_float16() -> None:
    assert len(told('torch.autocast("cpu", dtype=torch.float16)', (2, 1), Dtype.BF16)) == 1
