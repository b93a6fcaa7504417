"""Products of the whole numbers of a quantization: float16 ends at 65,504, which four products of eight bits reach."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.events import OF_WHOLE
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn


class Quantized(nn.Linear):
    def forward(self, x):
        step, unit = x.detach().abs().max() / 127, self.weight.detach().abs().max() / 127
        {x}
        {weight}
        return nn.functional.linear(x, weight) * step * unit + self.bias


model = nn.Sequential({first}nn.Flatten(), Quantized(784, 256), nn.ReLU(), Quantized(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CLAMPED = ("x = torch.clamp(x / step, -127, 127)", "weight = torch.clamp(self.weight / unit, -127, 127)")
ROUNDED = ("x = torch.round(x / step)", "weight = (self.weight / unit).round()")
THROUGH = (
    "x, scaled = x / step, x / step; x = scaled + (scaled.round() - scaled).detach()",
    "weight = self.weight / unit; weight = weight + (weight.round() - weight).detach()",
)
BOTH_SCALED = (f"{ROUNDED[0]} * step", f"{ROUNDED[1]} * unit")
ONE_SCALED = (ROUNDED[0], f"{ROUNDED[1]} * unit")
FEW = ("x = torch.clamp(x / step, -7, 7)", "weight = torch.clamp(self.weight / unit, -7, 7)")
CONVOLUTION = "nn.Conv2d(1, 1, 3, padding=1), "


@pytest.mark.parametrize("quantized", [CLAMPED, ROUNDED, THROUGH])
def test_a_product_of_whole_numbers_is_float32_behind_other_layers(quantized: tuple[str, str]) -> None:
    plan = migrate_text(TEXT.format(x=quantized[0], weight=quantized[1], first=CONVOLUTION), Settings())
    assert "scaler.step(optimizer)" in plan.after
    island = plan.after.split("enabled=False):")[1].splitlines()[1]
    assert "nn.functional.linear(x" in island


def test_a_model_of_such_products_alone_is_left() -> None:
    text = TEXT.format(x=CLAMPED[0], weight=CLAMPED[1], first="")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert OF_WHOLE in plan.findings[0].message


@pytest.mark.parametrize("quantized", [BOTH_SCALED, ONE_SCALED, FEW])
def test_what_is_scaled_back_or_small_computes_in_float16(quantized: tuple[str, str]) -> None:
    plan = migrate_text(TEXT.format(x=quantized[0], weight=quantized[1], first=CONVOLUTION), Settings())
    assert "enabled=False" not in plan.after
    assert "scaler.step(optimizer)" in plan.after


def test_bfloat16_has_the_range() -> None:
    text = TEXT.format(x=CLAMPED[0], weight=CLAMPED[1], first=CONVOLUTION)
    plan = migrate_text(text, Settings(dtype=Dtype.BF16))
    assert "enabled=False" not in plan.after
    assert plan.changed
