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
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
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
