"""Layers and losses of packages that nobody has read, in a model that is read: they compute in float32, as they did."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
import layers
from layers import losses
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 2)
        self.bend, self.leak = layers.Bend(8), layers.Leak(0.9)

    def forward(self, x, weight=None):
{body}

net, other, measure = Net().cuda(), layers.Zoo(8), losses.Rate()
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.load("batches.pt"):
    x, y = x.cuda(), y.cuda()
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSS = "loss = nn.functional.cross_entropy(net(x), y)"
OFF = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
KEPT = "kept in float32: its code could not be read: "


def moved(body: str, loss: str = LOSS, dtype: Dtype = Dtype.FP16) -> tuple[str, list[str]]:
    plan = migrate_text(TEXT.format(body=indent(body, " " * 8), loss=loss), Settings(dtype=dtype))
    assert "dtype=torch." in plan.after
    return plan.after, [each.message for each in plan.findings if each.code == "AMP504"]


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (
            "x = self.first(x)\nx = self.bend(x)\nreturn self.last(x)\n",
            f"x = self.first(x)\n{OFF}\n    x = self.bend(x.float())\nreturn self.last(x)\n",
        ),
        (
            "return self.last(self.bend(self.first(x)))\n",
            f"first_output = self.first(x)\n{OFF}\n    bend_output = self.bend(first_output.float())\n"
            "return self.last(bend_output)\n",
        ),
        (
            "x = self.first(x)\nreturn self.last(x + self.bend(x.view(-1, 8)))\n",
            f"x = self.first(x)\n{OFF}\n    bend_output = self.bend(x.float().view(-1, 8))\n"
            "return self.last(x + bend_output)\n",
        ),
        (
            "x = self.first(x)\nx += self.bend(x, scale=2)\nreturn self.last(x)\n",
            f"x = self.first(x)\n{OFF}\n    x += self.bend(x.float(), scale=2)\nreturn self.last(x)\n",
        ),
    ],
)
def test_a_layer_that_gets_half_precision_is_kept_in_float32(body: str, kept: str, dtype: Dtype) -> None:
    after, told = moved(body, dtype=dtype)
    assert indent(kept, " " * 8) in after
    assert told == [f"{KEPT}layers.Bend"]


SPIKING = """\
found = []
state = self.leak.start({given})
for _ in range(4):
    x = self.first(x)
    x, state = self.leak(x, state)
    found.append(self.last(x))
return torch.stack(found).mean(0)
"""


@pytest.mark.parametrize("given", ["", "8", "x"])
def test_so_is_the_state_that_a_layer_makes_itself(given: str) -> None:
    after, told = moved(SPIKING.format(given=given))
    assert f"{OFF}\n            state = self.leak.start({given})\n" in after
    assert f"{OFF}\n                x, state = self.leak(x.float(), state)\n" in after
    assert told == [f"{KEPT}layers.Leak"] * 2


@pytest.mark.parametrize(
    "body",
    [
        # A state that another object has made, or nobody knows what.
        "x, _ = self.leak(self.first(x), layers.start())\nreturn self.last(x)\n",
        "state = self.bend.start()\nx, _ = self.leak(self.first(x), state)\nreturn self.last(x)\n",
        # What is not a tensor cannot be cast, and may hold some.
        "x = self.bend(x, [self.first(x)])\nreturn self.last(x)\n",
        "x = self.bend(*[self.first(x)])\nreturn self.last(x)\n",
        "given = {'x': self.first(x)}\nx = self.bend(**given)\nreturn self.last(x)\n",
        # What is computed beside it may not go before.
        "found = [self.bend(each) for each in self.first(x)]\nreturn self.last(torch.stack(found))\n",
        "x = self.bend(self.first(x)) if x.shape[0] > 1 else x\nreturn self.last(x)\n",
        "x = self.first(x)\nx = self.last(x) + self.bend(torch.matmul(x, x.T) @ x)\nreturn x\n",
    ],
)
def test_what_may_be_half_precise_all_the_same_is_told(body: str) -> None:
    after, told = moved(body)
    assert OFF not in after
    assert told


def test_a_model_is_told_that_nothing_would_be_left_of_in_float32() -> None:
    after, told = moved("return self.last(self.first(x))\n", "loss = other(x).mean() + net(x).mean()")
    assert OFF not in after
    assert told


def test_a_loss_is_not_made_behind_what_it_reads() -> None:
    after, told = moved("return self.last(self.first(x))\n", "loss = losses.Rate()(net(x), y)")
    assert OFF not in after
    assert told


@pytest.mark.parametrize("made", ["measure", "losses.Rate()", "losses.rate"])
def test_a_loss_of_float32_is_kept_in_it(made: str) -> None:
    body = "x = self.first(x)\nx = self.bend(x)\nreturn self.bend(self.last(x))\n"
    after, told = moved(body, f"out = net(x)\n    loss = {made}(out, y)")
    assert f"        {OFF}\n            loss = {made}(out, y)\n" in after
    assert all(each.startswith(KEPT) for each in told)


APEX = """\
import torch
import layers
from apex import amp
from torch import nn

first, bend = nn.Linear(8, 8), layers.Bend(8)
net = nn.ModuleList([first, bend]).cuda()
optimizer = torch.optim.Adam(net.parameters())
net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
for x, y in loader:
    low = first(x.cuda())
    loss = (bend(low) - y.cuda()).square().mean()
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
"""


def test_what_apex_has_trained_in_half_precision_goes_on_so() -> None:
    after = migrate_text(APEX, Settings()).after
    assert "scaler.scale(loss).backward()" in after
    assert OFF not in after
