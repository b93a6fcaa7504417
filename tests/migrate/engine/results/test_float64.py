"""A model in float64, wherever it is made so: autocast leaves it alone, and so is its step."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.{body}, nn.Linear(16, 3)
        {cast}

    def forward(self, x):
        out, _ = self.body(x)
        return self.head(out)
"""
DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.randn(5, 4).double(), torch.randn(5, 3).double()


def load(size):
    return DataLoader(Pairs(), batch_size=size), None
"""
TRAIN = """\
import torch
from data import load
from net import Net


def train(size):
    loader, _ = load(size)
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "cast", "is_left"),
    [
        ("LSTM(4, 16, 3)", "self.double()", True),
        ("GRU(4, 16)", "self.to(torch.float64)", True),
        ("LSTM(4, 16, 3)", "self.other = nn.Linear(4, 4).double()", False),  # which is not what computes
        ("LSTM(4, 16, 3)", "self.cpu()", False),
    ],
)
def test_a_class_of_another_file(tmp_path: Path, body: str, cast: str, is_left: bool) -> None:
    files = {"net.py": "import torch\n" + NET.format(body=body, cast=cast), "data.py": DATA, "train.py": TRAIN}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (said,) = migrate([tmp_path], Settings()).findings
    assert said.code == ("AMP590" if is_left else "AMP501")
    assert ("the model computes in float64, which autocast leaves alone" in said.message) is is_left


BESIDE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 16)
        self.two = nn.Linear(16, 4)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


model = Net().cuda()
other = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss({out}, y.cuda())
    loss.backward()
    optimizer.step()
{behind}
print(other(x.double()))
"""


@pytest.mark.parametrize(
    ("out", "behind", "is_left"),
    [
        ("model(x.cuda())", "other.load_state_dict(torch.load(path))\nother.double()", False),
        ("model(x.cuda())", "check = Net().to(torch.float64)", False),
        ("model(x.cuda())", "model.double()", True),
        ("model(x.cuda())", "net = other if asked else model\nnet.double()", True),
        ("model(x.cuda())", "model.one.double()", True),
        ("other(model(x.cuda()).double())", "other.double()", True),
    ],
)
def test_only_what_is_trained_in_float64_keeps_a_step(tmp_path: Path, out: str, behind: str, is_left: bool) -> None:
    (tmp_path / "train.py").write_text(BESIDE.format(out=out, behind=behind))
    (said,) = migrate([tmp_path], Settings()).findings
    assert said.code == ("AMP590" if is_left else "AMP501")
    assert ("the model computes in float64" in said.message) is is_left
