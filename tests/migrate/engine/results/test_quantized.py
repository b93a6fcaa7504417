"""Quantization-aware training: the quantizer behind every layer takes float32 alone, and the step stays as it was."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch.ao.quantization import quantize_fx
from torchvision.models import resnet18
from elsewhere import Base, build


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = torch.quantization.QuantStub()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        self.dequant = torch.ao.quantization.DeQuantStub()

    def observed(self):
        self.qconfig = torch.quantization.get_default_qat_qconfig("fbgemm")
        torch.quantization.prepare_qat(self, inplace=True)

    def forward(self, x):
        return self.dequant(self.layers(self.quant(x)))


class Unread(Base):
    def forward(self, x):
        return self.features(x)


def train(loader):
    {prepared}
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
QAT = "torch.ao.quantization.prepare_qat"
OBSERVED = "model.qconfig = torch.ao.quantization.{}\n    model = torch.ao.quantization.prepare{}(model)"
MAPPING = "torch.ao.quantization.get_default_qat_qconfig_mapping()"


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
@pytest.mark.parametrize(
    "prepared",
    [
        "model = Net()\n    model.observed()",
        f"model = {QAT}(Net())",
        f"model = Net()\n    {QAT}(model, inplace=True)",
        f"model = Net()\n    {QAT}(model.layers, None, True)",
        f"model = {QAT}(resnet18())",
        f"model = {QAT}(Unread())",
        f"model = build()\n    {QAT}(model, inplace=True)",
        f"model = Net()\n    model = quantize_fx.prepare_qat_fx(model, {MAPPING}, None)",
        "model = Net()\n    " + OBSERVED.format("default_qat_qconfig_v2", ""),
    ],
)
def test_a_quantizer_that_takes_float32_leaves_the_step(prepared: str, dtype: Dtype) -> None:
    text = TEXT.format(prepared=prepared)
    plan = migrate_text(text, Settings(dtype=dtype))
    assert plan.after == text
    assert [each.code for each in plan.findings] == ["AMP590"]
    assert "no kernel takes half precision: fused_moving_avg_obs_fake_quant (line " in plan.findings[0].message


@pytest.mark.parametrize(
    "prepared",
    [
        "model = Net()",
        f"model = Net()\n    quantized = {QAT}(model)",
        "model = Net()\n    " + OBSERVED.format("default_qat_qconfig", "_qat"),
        "model = Net()\n    " + OBSERVED.format('get_default_qconfig("fbgemm")', ""),
    ],
)
def test_what_has_half_precision_or_is_not_trained_moves(prepared: str) -> None:
    plan = migrate_text(TEXT.format(prepared=prepared), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


@pytest.mark.parametrize("fused", ["fuse_modules(Net(), [['layers.0', 'layers.1']])", "fuse_modules_qat(Net(), [])"])
def test_a_fused_model_is_where_the_model_was(fused: str) -> None:
    text = TEXT.format(prepared=f"model = torch.ao.quantization.{fused}")
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after
    text = text.replace("model = model.cuda()", "loader = [(torch.ones(2, 3, 8, 8), torch.ones(2, 4, 6, 6))]")
    plan = migrate_text(text.replace(".cuda()", ""), Settings())
    assert [each.message for each in plan.findings] == ["left as it was: everything is on the CPU (line 34)"]


def test_a_quantizer_among_the_layers_reads_in_float32() -> None:
    text = TEXT.format(prepared="model = Net()")
    text = text.replace("torch.ao.quantization.DeQuantStub()", "torch.ao.quantization.FusedMovingAvgObsFakeQuantize()")
    plan = migrate_text(text, Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert ".float())" in plan.after
