"""Weights that the code itself stores in half precision, one by one, are as those of `model.half()`."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Dtype, Settings

TRAINED = """\
import torch
from torch import nn
{more}
model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Flatten(), nn.Linear(8, 3)).cuda()
{cast}
optimizer = torch.optim.Adam(model.parameters(), eps=1e-4)
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x.cuda().half()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TO_HALF = """
def to_half(layer):
    if isinstance(layer, (nn.Conv2d, nn.Linear)):
        layer.weight.data = layer.weight.data.half()
"""
WEIGHTS_CAST = "what is trained is in half precision already: a model's weights were cast by "


@pytest.mark.parametrize(
    ("more", "cast", "by"),
    [
        ("", "for p in model.parameters():\n    p.data = p.data.half()", "p.data = p.data.half()"),
        (
            "",
            "for layer in model.modules():\n    if isinstance(layer, nn.Linear):\n"
            "        layer.bias.data = layer.bias.to(torch.float16)",
            "layer.bias.data = layer.bias.to(torch.float16)",
        ),
        (
            "",
            "model[2].weight = nn.Parameter(model[2].weight.half())",
            "model[2].weight = nn.Parameter(model[2].weight.half())",
        ),
        ("", "model.bfloat16()", "model.bfloat16()"),
        ("", "model.to('cuda').half()", "model.to('cuda').half()"),
        (TO_HALF, "model.apply(to_half)", "layer.weight.data = layer.weight.data.half()"),
        (TO_HALF, "to_half(model[2])", "layer.weight.data = layer.weight.data.half()"),
    ],
)
def test_they_leave_the_step(more: str, cast: str, by: str) -> None:
    plan = migrate_text(TRAINED.format(more=more, cast=cast), Settings())
    assert not plan.changed
    (left,) = plan.findings
    assert left.message.startswith(f"left as it was: {WEIGHTS_CAST}`{by}`")


@pytest.mark.parametrize(
    "cast",
    [
        "for p in model.parameters():\n    p.data = p.data.half().float()",
        "for p in model.parameters():\n    p.data = p.data * 0.5",
        "kept = [p.data.half() for p in model.parameters()]",
        "model[2].weight = nn.Parameter(model[2].weight.half().float())",
        "mean = model[2].weight.data.half()\nmean.data = mean.data * 2",
        "teacher = nn.Linear(3, 3).half()",
        "frozen = torch.load(path)\nfrozen.to(torch.bfloat16)",
    ],
)
def test_what_stays_float32_moves(cast: str) -> None:
    assert "scaler.step(optimizer)" in migrate_text(TRAINED.format(more="", cast=cast), Settings()).after


def test_a_parameter_that_is_made_so_leaves_the_step() -> None:
    module = """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float16))

    def forward(self, x):
        return x * self.scale

"""
    plan = migrate_text(TRAINED.format(more=module, cast="model.append(Scale().cuda())"), Settings())
    assert not plan.changed
    assert WEIGHTS_CAST in plan.findings[0].message


def test_so_do_those_that_a_package_loads(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "__init__.py").write_text("from .net import *\n")
    (tmp_path / "nets" / "net.py").write_text(f"""\
import torch
from torch import nn

__all__ = ["load"]
{TO_HALF}

def load(name, device="cuda"):
    model = nn.Sequential(nn.Linear(8, 3))
    model.apply(to_half)
    model.load_state_dict(torch.load(name))
    model.to(device)
    if str(device) == "cpu":
        model.float()
    return model
""")
    text = TRAINED.format(more="import nets\n", cast='model = nets.load("a.pt")')
    (tmp_path / "train.py").write_text(text)
    outcome = migrate([tmp_path], Settings())
    assert not outcome.changed
    assert any(WEIGHTS_CAST in each.message for each in outcome.findings)


LOADED = """\
import torch
from torch import nn
from transformers import AutoModel, PreTrainedModel


class Own(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.body = AutoModel.from_config(config)

    def forward(self, ids):
        return self.body(ids)[0]


def main(loader, args):
    dtype = dict(torch_dtype=torch.bfloat16)
    {model}
    optimizer = torch.optim.AdamW({trained}.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy({out}, y.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "model",
    [
        'AutoModel.from_pretrained("a", torch_dtype=torch.bfloat16).cuda()',
        'AutoModel.from_pretrained("a", dtype=torch.float16, device_map="cuda")',
        'AutoModel.from_pretrained("a", dtype="bfloat16").to("cuda")',
        'AutoModel.from_pretrained("a", torch_dtype="auto").cuda()',
        'AutoModel.from_pretrained("a", torch_dtype=torch.half if args.half else torch.float32).cuda()',
        'AutoModel.from_pretrained("a", **dtype).cuda()',
        'Own.from_pretrained("a", torch_dtype=torch.bfloat16).cuda()',
        "AutoModel.from_config(args.config, torch_dtype=torch.bfloat16).cuda()",
    ],
)
def test_what_a_package_makes_in_half_precision_leaves_the_step(model: str) -> None:
    text = LOADED.format(model=f"model = {model}", trained="model", out="model(x.cuda())[0]")
    plan = migrate_text(text, Settings())
    assert not plan.changed
    (left,) = plan.findings
    assert WEIGHTS_CAST in left.message
    assert model.partition("(")[0] in left.message


@pytest.mark.parametrize("dtype", ["torch_dtype=torch.float32", "dtype=args.dtype", "torch_dtype=None"])
def test_what_it_makes_in_float32_moves(dtype: str) -> None:
    model = f'model = AutoModel.from_pretrained("a", {dtype}).cuda()'
    text = LOADED.format(model=model, trained="model", out="model(x.cuda())[0]")
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after


TWICE = """\
import torch

x = torch.rand(64, 32).cuda()
model = torch.nn.Linear(32, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(10):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

x = x.half()
model = torch.nn.Linear(32, 8).half().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(10):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_training_before_one_in_half_precision_moves() -> None:
    plan = migrate_text(TWICE, Settings())
    moved, left = plan.findings
    assert (moved.code, moved.line, left.code, left.line) == ("AMP501", 9, "AMP590", 18)
    assert left.message.startswith(f"left as it was: {WEIGHTS_CAST}`torch.nn.Linear(32, 8).half()`")
    before, behind = plan.after.split("x = x.half()\n")
    assert "scaler.step(optimizer)" in before
    assert behind == TWICE.split("x = x.half()\n")[1]


def test_two_trainings_in_half_precision_stay() -> None:
    plan = migrate_text(
        TWICE.replace("torch.nn.Linear(32, 8).cuda()", "torch.nn.Linear(32, 8).half().cuda()"), Settings()
    )
    assert not plan.changed
    assert [(each.code, each.line) for each in plan.findings] == [("AMP590", 9), ("AMP590", 18)]
    assert all(WEIGHTS_CAST in each.message for each in plan.findings)


SPECTRAL = """\
import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)
        self.w = {made}

    def forward(self, x):
        return self.lin(torch.fft.irfft(torch.fft.rfft(x) * {w}))


net = Spectral().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.load("batches.pt"):
    loss = (net(x.cuda()) - x.cuda().roll(1, 1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "made",
    [
        "nn.Parameter(torch.rand(9, dtype=torch.cfloat))",
        "nn.Parameter(0.1 * torch.rand(9, dtype=torch.complex64))",
        "nn.Parameter(torch.view_as_complex(torch.rand(9, 2)))",
    ],
)
def test_complex_parameters_go_with_no_scaler(made: str) -> None:
    """`unscale_()` has no kernel for their gradients; in bfloat16 no scaler is needed."""
    text = SPECTRAL.format(made=made, w="self.w")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "complex parameters" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(dtype=Dtype.BF16)).after


@pytest.mark.parametrize(
    ("made", "w"),
    [
        ("nn.Parameter(torch.rand(9, 2))", "torch.view_as_complex(self.w)"),
        ("nn.Parameter(torch.rand(9, dtype=torch.cfloat), requires_grad=False)", "self.w"),
    ],
)
def test_complex_numbers_that_get_no_gradient_of_their_own_go_with_one(made: str, w: str) -> None:
    assert "scaler.step(optimizer)" in migrate_text(SPECTRAL.format(made=made, w=w), Settings()).after
