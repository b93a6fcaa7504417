"""Outputs of a region that are put into a float32 buffer: at tensors of indices it takes no other dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]

STEP = """\
MODEL
for x, index in loader:
    loss = model(x).mean()
    STEP
"""


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "auto"])
@pytest.mark.parametrize(
    ("store", "value"),
    [
        ("scores[i, best] = {}", "out[:, 1]"),
        ("scores[index] = {}", "out"),
        ("scores[x > 0] = {}", "out.squeeze()"),
        ("scores.scatter_(1, index, {})", "out"),
        ("scores.index_copy_(0, index, {})", "out.detach()"),
        ("scores[index] = {}", "model(x).cpu()"),
    ],
)
def test_output_takes_the_dtype_of_the_buffer(migrate: Check, store: str, value: str, dtype: str) -> None:
    evaluation = (
        "scores = torch.full((8, 2), -100.0).to(device)\n"
        "with torch.no_grad():\n"
        "    for i, (x, index) in enumerate(loader):\n"
        "        best = x.topk(1)[1]\n"
        "        out = model(x)\n"
        "        {}\n"
    )
    after = migrate(STEP + evaluation.format(store.format(value)), dtype).after
    assert store.format(f"{value}.to(scores.dtype)") in after


@pytest.mark.parametrize(
    "store",
    ["scores[i] = out", "scores[:, 1] = out", "scores[i + 1, :] = out", "found[index] = out", "scores[index] = x"],
)
def test_what_is_copied_or_kept_as_it_is_is_not_cast(migrate: Check, store: str) -> None:
    evaluation = (
        "scores = torch.zeros(8, 2)\n"
        "found = {{}}\n"
        "with torch.no_grad():\n"
        "    for i, (x, index) in enumerate(loader):\n"
        "        out = model(x)\n"
        "        {}\n"
    )
    assert f"        {store}\n" in migrate(STEP + evaluation.format(store)).after


def test_memory_bank_of_a_trainer(migrate: Check) -> None:
    text = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.memory = torch.zeros(8, 2, device="cuda")
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self, loader):
        for x, index in loader:
            out = self.model(x)
            loss = out.mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.memory[index] = out.detach()
"""
    assert "self.memory[index] = out.detach().to(self.memory.dtype)" in migrate(text).after


def test_what_may_be_a_dictionary_has_no_dtype(migrate: Check) -> None:
    evaluation = """\
scores = torch.zeros(8, 2) if many else OTHER
with torch.no_grad():
    for x, index in loader:
        out = model(x)
        scores[index] = out
"""
    for other, value in (("{}", "out"), ("torch.ones(8, 2)", "out.to(scores.dtype)")):
        assert f"        scores[index] = {value}\n" in migrate(STEP + evaluation.replace("OTHER", other)).after


INSIDE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x, mask):
        x = self.inner(x)
        p = x.softmax(-1)
        out = x.clone()
        {store}
        return out


net = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, mask in loader:
    loss = net(x.to(device), mask.to(device)).mean()
    STEP
"""


@pytest.mark.parametrize(
    "store",
    ["out[mask] = {}", "out[mask, 0] = {}", "out.masked_scatter_(mask, {})", "out.scatter_add_(1, mask, src={})"],
)
def test_what_autocast_computes_in_float32_takes_the_dtype_of_a_low_copy(migrate: Check, store: str) -> None:
    text = "MODEL\n" + INSIDE.format(store=store.format("p"))
    assert store.format("p.to(out.dtype)") in migrate(text).after


@pytest.mark.parametrize(
    "store", ["out[0] = p[0]", "out[mask] = x[mask]", "out[mask] = 0.5", "out = out + p", "out.copy_(p)"]
)
def test_what_a_low_copy_takes_is_not_cast(migrate: Check, store: str) -> None:
    assert f"        {store}\n" in migrate("MODEL\n" + INSIDE.format(store=store)).after


MARGIN = """\
import yaml

margin = yaml.safe_load(open("margin.yaml"))["margin"]
MODEL
for x, index in loader:
    cos = model(x)
    gt = cos[torch.arange(4), index].view(-1, 1)
    moved = torch.where(gt > 0.1, {one}, gt - margin)
    {store}
    loss = nn.functional.cross_entropy(cos, index)
    STEP
"""


@pytest.mark.parametrize(("store", "value"), [("cos.scatter_(1, index, {})", "moved"), ("cos[index] = {}", "moved[0]")])
def test_what_is_float32_on_one_side_takes_the_dtype_of_a_low_score(migrate: Check, store: str, value: str) -> None:
    text = MARGIN.format(one="gt - torch.pow(gt, 2)", store=store.format(value))
    assert store.format(f"{value}.to(cos.dtype)") in migrate(text).after


def test_what_nobody_knows_on_one_side_is_not_cast(migrate: Check) -> None:
    text = MARGIN.format(one="gt - 0.1", store="cos.scatter_(1, index, moved)")
    assert "cos.scatter_(1, index, moved)\n" in migrate(text).after


IN_PARTS = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 8)
        self.rotation = nn.Parameter(torch.eye(8))

    def forward(self, x):
        kept, x = (x @ self.rotation).chunk(2, 1)
        widths = torch.softmax(self.net(kept).view(len(x), 4, 2), -1)[..., 0]
        inside = x.abs() < 3
        out, slope = torch.zeros_like(x), torch.zeros_like(x)
        out[~inside] = x[~inside]
        {stored}
        return torch.cat([kept, out], 1), slope.sum(1)


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(), Layer()])

    def forward(self, x):
        total = 0
        for layer in self.layers:
            x, slope = layer(x)
            total = total + slope
        return x, total


net = Flow().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.load("batches.pt"):
    y, slope = net(x.cuda())
    loss = (y * y / 2).sum(1).mean() - slope.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_each_of_several_that_are_stored_at_once_takes_the_dtype_of_its_buffer() -> None:
    """A parameter of a layer's own is where the layer is: what it is multiplied with in a region is half precision."""
    stored = "out[inside], slope[inside] = x[inside] * widths[inside], widths[inside].log()"
    cast = (
        "out[inside], slope[inside] = (x[inside] * widths[inside]).to(out.dtype), widths[inside].log().to(slope.dtype)"
    )
    after = migrate_text(IN_PARTS.format(stored=stored), Settings()).after
    assert cast in after
    assert "scaler.step(optimizer)" in after
    assert "out[~inside] = x[~inside]\n" in after


def test_buffers_are_float32_for_what_a_function_gives_to_several_at_once() -> None:
    """As in splines that are the identity outside of their bounds."""
    text = IN_PARTS.format(stored="out[inside], slope[inside] = both(x[inside], widths[inside])")
    both = "def both(x, widths):\n    return x * widths, widths.log()\n\n\nclass Layer"
    after = migrate_text(text.replace("class Layer", both), Settings()).after
    assert "out, slope = torch.zeros_like(x.float()), torch.zeros_like(x.float())" in after
    assert "out[~inside] = x[~inside].to(out.dtype)" in after
    assert "scaler.step(optimizer)" in after


def test_buffers_are_float32_where_only_some_calls_have_them_in_half_precision() -> None:
    """The first layer gets float32, and the others what the first has made."""
    text = IN_PARTS.format(stored="out[inside], slope[inside] = both(x[inside], widths[inside])")
    text = text.replace("kept, x = (x @ self.rotation).chunk(2, 1)", "kept, x = x.chunk(2, 1)")
    text = text.replace("torch.cat([kept, out], 1)", "torch.cat([kept, out], 1) @ self.rotation")
    text = text.replace('torch.load("batches.pt")', "torch.randn(9, 8, 8)")
    both = "def both(x, widths):\n    return x * widths, widths.log()\n\n\nclass Layer"
    after = migrate_text(text.replace("class Layer", both), Settings()).after
    assert "out, slope = torch.zeros_like(x.float()), torch.zeros_like(x.float())" in after
