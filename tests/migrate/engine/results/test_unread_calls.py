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


def test_so_are_layers_that_go_on_from_it() -> None:
    chain = (
        "x = self.first(x)\nx = self.bend(x).relu()\nx = self.bend(x).relu()\nx = self.bend(x)\nreturn self.last(x)\n"
    )
    after, told = moved(chain)
    assert f"{OFF}\n            bend_output = self.bend(x.float())\n        x = bend_output.relu()\n" in after
    assert f"{OFF}\n            bend_output = self.bend(x)\n        x = bend_output.relu()\n" in after
    assert f"{OFF}\n            x = self.bend(x)\n        return self.last(x)\n" in after
    assert told == [f"{KEPT}layers.Bend"] * 3


STEP = """\
    def step(self, x):
        y = self.first(x)
        self.{name} = y.detach().float().mean()
        return y

"""


@pytest.mark.parametrize(("name", "is_kept"), [("mean", False), ("seen", True)])
def test_what_a_call_changes_is_not_read_behind_it(name: str, is_kept: bool) -> None:
    text = TEXT.format(body=indent("x = self.bend(self.mean, self.step(x))\nreturn self.last(x)\n", " " * 8), loss=LOSS)
    text = text.replace("    def forward", f"{STEP.format(name=name)}    def forward")
    text = text.replace("self.first, self.last", "self.mean = torch.zeros(1).cuda()\n        self.first, self.last")
    plan = migrate_text(text, Settings())
    assert "scaler.scale(loss)" in plan.after
    assert ("self.bend(self.mean, step_output.float())" in plan.after) is is_kept
    assert (OFF in plan.after) is is_kept


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


@pytest.mark.parametrize("name", ["conv1d", "linear", "repeat"])
def test_a_layer_that_a_method_makes_is_none_that_a_tensor_would_give(name: str) -> None:
    text = TEXT.replace("layers.Bend(8)", f"layers.Chain(8).{name}(8)")
    plan = migrate_text(text.format(body=indent("return self.bend(x)\n", " " * 8), loss=LOSS), Settings())
    told = [each.message for each in plan.findings if each.code == "AMP504"]
    assert "scaler.scale(loss)" in plan.after
    assert any(f"could not be read: layers.Chain.{name}" in each for each in told) is (name != "repeat")
    assert not any("never returns" in each for each in told)


@pytest.mark.parametrize("made", ["measure", "losses.Rate()", "losses.rate"])
def test_a_loss_of_float32_is_kept_in_it(made: str) -> None:
    body = "x = self.first(x)\nx = self.bend(x)\nreturn self.bend(self.last(x))\n"
    after, told = moved(body, f"out = net(x)\n    loss = {made}(out, y)")
    assert f"        {OFF}\n            loss = {made}(out, y)\n" in after
    assert all(each.startswith(KEPT) for each in told)


@pytest.mark.parametrize(
    ("loss", "taken_out"),
    [
        (
            "loss = 2 * measure(out, y) + losses.rate(out, y)",
            ["+measure_output = measure(out.float(), y)", "+rate_output = losses.rate(out.float(), y)"],
        ),
        (
            "loss = measure(out, y).mean() - losses.rate(out, y)",
            [
                "+measure_output = measure(out.float(), y)",
                "mean_output = measure_output.mean()",
                "+rate_output = losses.rate(out.float(), y)",
            ],
        ),
        (
            "loss = losses.rate(out, y) + losses.rate(out, 2 * y)",
            ["+rate_output = losses.rate(out.float(), y)", "+rate_output_2 = losses.rate(out.float(), 2 * y)"],
        ),
        (
            "loss = out.norm() + measure(out, y) - losses.rate(out, y)",
            [
                "norm_output = out.norm()",
                "+measure_output = measure(out.float(), y)",
                "+rate_output = losses.rate(out.float(), y)",
            ],
        ),
        (
            "loss = out.norm() + measure(out, y).mean()",
            ["norm_output = out.norm()", "+measure_output = measure(out.float(), y)"],
        ),
    ],
)
def test_losses_of_one_statement_are_taken_out_of_it_in_their_order(loss: str, taken_out: list[str]) -> None:
    after, told = moved("return self.last(self.first(x))\n", f"out = net(x)\n    {loss}")
    lines = (
        f"        {OFF}\n            {each[1:]}\n" if each[0] == "+" else f"        {each}\n" for each in taken_out
    )
    assert "        out = net(x)\n" + "".join(lines) + "        loss = " in after
    assert all(each.startswith(KEPT) for each in told)


def test_what_is_told_beside_one_that_is_kept_is_told() -> None:
    _, told = moved(
        "return self.last(self.first(x))\n", "out = net(x)\n    loss = measure(out, y) + losses.rate(*[out, y])"
    )
    assert f"{KEPT}layers.losses.Rate" in told or f"{KEPT}layers.losses.Rate()" in told
    assert len(told) > 1


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


NORM = """
try:
    from apex.normalization import FusedLayerNorm as Norm
except ImportError:
    from torch.nn import LayerNorm as Norm
"""


def test_a_norm_of_apex_computes_in_a_region_as_it_knows_how_to() -> None:
    text = TEXT.format(body=" " * 8 + "return self.last(self.bend(self.first(x)))", loss=LOSS)
    text = text.replace("layers.Bend(8)", "Norm(8)").replace("from torch import nn\n", f"from torch import nn\n{NORM}")
    plan = migrate_text(text, Settings())
    assert "return self.last(self.bend(self.first(x)))\n" in plan.after
    assert "FusedLayerNorm as Norm" in plan.after
    assert "AMP504" not in [each.code for each in plan.findings]


@pytest.mark.parametrize(
    ("behind", "kept"),
    [
        ("z = x @ x.t()\n", "    x = self.bend(x.float())\n    z = x @ x.t()\n"),
        # What is computed before it is computed under autocast.
        (
            "z = self.leak(self.last(x))\n",
            "    x = self.bend(x.float())\nlast_output = self.last(x)\n"
            f"{OFF}\n    z = self.leak(last_output.float())\n",
        ),
    ],
)
def test_regions_without_autocast_that_follow_each_other_are_one(behind: str, kept: str) -> None:
    body = f"x = self.first(x)\nx = self.bend(x)\n{behind}return self.last(x) + z.mean()\n"
    after, _ = moved(body)
    assert indent(f"x = self.first(x)\n{OFF}\n{kept}return self.last(x) + z.mean()\n", " " * 8) in after


@pytest.mark.parametrize("call", ["_forward_impl(x)", "layer1(x)"])
def test_what_a_model_inherits_from_a_package_may_be_what_its_weights_compute_with(call: str) -> None:
    text = f"""\
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet


class Net(ResNet):
    def forward(self, x):
        return torch.sigmoid(self.{call})


net = Net(BasicBlock, [2, 2, 2, 2], num_classes=1).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in torch.load("batches.pt"):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
    assert "        loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())\n    scaler.scale(loss).backward()\n" in (
        migrate_text(text, Settings()).after
    )
