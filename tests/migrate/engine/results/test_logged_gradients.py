"""What logs gradients beside a scaler is told: histograms, which raise at infinities, and a library's hooks."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.questions import OF_SKIPPED, WATCHED
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import numpy as np
import torch
from torch import nn

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def log(net):
    for name, p in net.named_parameters():
        {counted}


for x, y in torch.load("batches.pt"):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    log(model)
"""


def told(counted: str, dtype: Dtype = Dtype.FP16) -> list[str]:
    plan = migrate_text(TEXT.format(counted=counted), Settings(dtype=dtype))
    assert "autocast" in plan.after
    return [each.hint for each in plan.findings if each.message == OF_SKIPPED]


@pytest.mark.parametrize(
    "counted",
    [
        "print(name, np.histogram(p.grad.data.cpu().numpy(), bins=100))",
        "print(name, np.histogram_bin_edges(p.grad.cpu().numpy()))",
        "print(name, np.histogram(p.grad.cpu().numpy(), 100, None))",
    ],
)
def test_a_histogram_that_takes_its_range_from_gradients(counted: str) -> None:
    (hint,) = told(counted)
    assert "isfinite" in hint
    assert told(counted, Dtype.BF16) == []


@pytest.mark.parametrize(
    "counted",
    [
        "print(name, np.histogram(p.grad.cpu().numpy(), bins=100, range=(-1, 1)))",
        "print(name, np.histogram(p.detach().cpu().numpy(), bins=100))",
        "if torch.isfinite(p.grad).all():\n            print(name, np.histogram(p.grad.cpu().numpy()))",
    ],
)
def test_a_histogram_that_does_not_raise(counted: str) -> None:
    assert told(counted) == []


@pytest.mark.parametrize(
    ("given", "is_told"),
    [("model", True), ('model, log="all"', True), ("model, criterion, how", True), ('model, log="parameters"', False)],
)
def test_a_library_that_logs_gradients_by_hooks(given: str, is_told: bool) -> None:
    text = TEXT.format(counted="print(name)").replace("\n\n\ndef", f"\nwandb.watch({given})\n\n\ndef")
    text = text.replace("import torch", "import torch\nimport wandb", 1)
    plan = migrate_text(text, Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert [each.line for each in plan.findings if each.message == WATCHED] == [8] * is_told
    assert not any(each.message == WATCHED for each in migrate_text(text, Settings(dtype=Dtype.BF16)).findings)


OF_TWO = """\
import torch
import wandb
from torch import nn


def train(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        loss = net(x.cuda()).square().mean()
        loss.backward()
        optimizer.step()


def train_in_float32(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        x = x.cuda().requires_grad_()
        out = net(x)
        gradient = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)[0]
        loss = out.mean() + (gradient.norm(2, dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()


one = nn.Linear(8, 4).cuda()
other = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).cuda()
wandb.watch({watched}, log="all")
train(one, loader)
train_in_float32(other, loader)
"""


@pytest.mark.parametrize(
    ("watched", "is_told"), [("one", True), ("other", False), ("(one, other)", True), ("net", True)]
)
def test_a_library_that_logs_gradients_of_what_is_trained_in_float32(watched: str, is_told: bool) -> None:
    plan = migrate_text(OF_TWO.format(watched=watched), Settings())
    assert plan.after.count("scaler.step(optimizer)") == 1
    assert any(each.message == WATCHED for each in plan.findings) is is_told


TWO_WAYS = """\
import torch
from tensorboardX import SummaryWriter


class Trainer:
    def __init__(self, model, optimizer, criterion, loader, every=1):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.loader, self.every, self.seen = loader, every, 0
        self.writer = SummaryWriter()

    @classmethod
    def resumed(cls, path, model, optimizer, criterion, loader):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return cls(model, optimizer, criterion, loader, every=state["every"])

    @classmethod
    def pretrained(cls, path, model, optimizer, criterion, loader):
        model.load_state_dict(torch.load(path))
        return cls(model, optimizer, criterion, loader)

    def fit(self):
        for _ in range(10):
            self.train(self.loader)

    def train(self, loader):
        for x, y in loader:
            loss = self.criterion(self.model(x.cuda()), y.cuda())
            self.optimizer.zero_grad()
            loss.backward(){before}
            self.optimizer.step()
            if self.seen % self.every == 0:
                self.log()
            self.seen += 1

    def log(self):
        for name, value in self.model.named_parameters():
            self.writer.add_histogram(name, value.grad.data.cpu().numpy(), self.seen)
"""


@pytest.mark.parametrize("unscaled", ["", "\n            self.log()"])
def test_an_object_that_is_made_in_two_ways_steps_its_own_optimizer(unscaled: str) -> None:
    plan = migrate_text(TWO_WAYS.format(before=unscaled), Settings())
    assert "self.scaler.step(self.optimizer)" in plan.after
    assert ("self.scaler.unscale_(self.optimizer)" in plan.after) is bool(unscaled)
    assert [each.code for each in plan.findings] == ["AMP501"]
