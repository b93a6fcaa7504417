"""A model that another replaces while it is trained: its optimizer has no gradients then, and a scaler raises."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

SCRIPT = """\
import copy
import torch
from torch import nn

G, D = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
average = copy.deepcopy(G)
opt_g = torch.optim.Adam({trained}.parameters())
for step, x in enumerate(loader):
    loss = -D(G(x.cuda())).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    if step > 1000:
        {replaced}
"""
RAISES = "a scaler's step() raises once the loss is computed from what no optimizer has"


@pytest.mark.parametrize(
    ("replaced", "by"), [("G = average", "copy.deepcopy(G)"), ("G = nn.Linear(8, 8).cuda()", "nn.Linear(8, 8)")]
)
def test_a_step_whose_model_is_replaced_is_told(replaced: str, by: str) -> None:
    plan = migrate_text(SCRIPT.format(trained="G", replaced=replaced), Settings())
    assert "scaler.step(opt_g)" in plan.after
    (told,) = (each.message for each in plan.findings if each.code == "AMP504")
    assert told.startswith(RAISES)
    assert told.endswith(by)


@pytest.mark.parametrize(
    ("trained", "replaced"),
    [
        ("G", "G.load_state_dict(average.state_dict())"),
        ("G", "G, opt_g = average, torch.optim.Adam(average.parameters())"),
        ("G", "print(average(x))"),
        ("D", "G = average"),
        ("nn.ModuleList([G, average])", "G = average"),
        ("nn.ModuleList([G, D])", "G = average"),
    ],
)
def test_an_optimizer_that_always_has_gradients_is_not(trained: str, replaced: str) -> None:
    plan = migrate_text(SCRIPT.format(trained=trained, replaced=replaced), Settings())
    assert "scaler.step(opt_g)" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_without_a_scaler_nothing_raises() -> None:
    plan = migrate_text(SCRIPT.format(trained="G", replaced="G = average"), Settings(dtype=Dtype.BF16))
    assert [each.code for each in plan.findings] == ["AMP501"]


_PART = """\
import torch
from torch import nn
from transformers import PreTrainedModel


class Net(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


model = Net.from_pretrained("x").cuda()
optimizer = torch.optim.Adam(model.head.parameters())
for x, y in loader:
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_layers_of_one_model_are_none_in_place_of_the_others() -> None:
    plan = migrate_text(_PART, Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert not [each for each in plan.findings if RAISES in each.message]


_WRAPPED = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.second(nn.Parameter(torch.relu(x).float())) + self.first(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer()])
        self.layers.append(Layer())

    def forward(self, x, chosen):
        return self.layers[chosen](x)


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, chosen in loader:
    loss = model(x.cuda(), chosen).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if chosen > 1:
        {replaced}
"""


@pytest.mark.parametrize(("replaced", "is_told"), [("print(loss)", False), ("model = Net().cuda()", True)])
def test_what_a_forward_wraps_in_a_parameter_is_none_in_place_of_its_layers(replaced: str, is_told: bool) -> None:
    plan = migrate_text(_WRAPPED.replace("{replaced}", replaced), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert any(each.message.startswith(RAISES) for each in plan.findings) is is_told


_CHAINED = """\
import itertools
import torch
from torch import nn
import lib


class Trainer:
    def __init__(self):
        self.a, self.b = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()
        self.c, self.d = nn.Linear(8, 1).cuda(), nn.Linear(8, 1).cuda()
        self.first = torch.optim.Adam(GIVEN(self.a.parameters(), self.b.parameters()))
        self.second = torch.optim.Adam(GIVEN(self.c.parameters(), self.d.parameters()))

    def backward(self, loss):
        loss.backward()

    def step(self, x):
        self.first.zero_grad()
        loss = self.c(self.b(self.a(x))).square().mean()
        self.backward(loss)
        self.first.step()

    def other(self, x):
        self.second.zero_grad()
        loss = self.c(x).square().mean() + self.d(x).square().mean()
        self.backward(loss)
        self.second.step()


trainer = Trainer()
for x in loader:
    trainer.step(x.cuda())
    trainer.other(x.cuda())
"""


@pytest.mark.parametrize("given", ["itertools.chain", "lib.weights_of"])
def test_what_an_optimizer_may_have_is_in_place_of_nothing(given: str) -> None:
    after = migrate_text(_CHAINED.replace("GIVEN", given), Settings())
    assert "scaler.step(self.first)" in after.after
    assert not [each for each in after.findings if RAISES in each.message]
