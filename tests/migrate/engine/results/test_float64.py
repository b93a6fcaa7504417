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


model = {made}
other = Net()
{cast}
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model({x}), y.cuda())
    loss.backward()
    optimizer.step()
{behind}
print(other(x.double()))
"""


def findings(folder: Path, made: str = "Net().cuda()", cast: str = "", x: str = "x.cuda()", behind: str = "") -> str:
    """What is said of the step."""
    (folder / "train.py").write_text(BESIDE.format(made=made, cast=cast, x=x, behind=behind))
    (said,) = migrate([folder], Settings()).findings
    assert said.code in ("AMP501", "AMP590")
    return said.message


@pytest.mark.parametrize(
    "cast",
    [
        "model.double()",
        "net = model if asked else other\nnet.double()",
        "torch.set_default_dtype(torch.float64)",
        "torch.set_default_tensor_type('torch.cuda.DoubleTensor')",
    ],
)
@pytest.mark.parametrize("x", ["x.cuda()", "x.cuda().to(dtype=torch.float64)"])
def test_a_model_that_is_trained_in_float64_keeps_its_step(tmp_path: Path, cast: str, x: str) -> None:
    why = f"the model computes in float64, which autocast leaves alone: by `{cast.rpartition(chr(10))[2]}`"
    assert findings(tmp_path, cast=cast, x=x).startswith(f"left as it was: {why}")


@pytest.mark.parametrize("made", ["lib.build(3)", "transformers.AutoModel.from_pretrained(name)"])
def test_so_does_one_that_nobody_has_read(tmp_path: Path, made: str) -> None:
    assert f"in float64, which autocast leaves alone: by `{made}.double()`" in findings(tmp_path, f"{made}.double()")
    assert "moved" in findings(tmp_path, f"{made}.float()")


@pytest.mark.parametrize("cast", ["double()", "to(torch.float64)"])
def test_what_is_cast_and_not_trained_keeps_none(tmp_path: Path, cast: str) -> None:
    assert "moved" in findings(tmp_path, cast=f"other.{cast}")
    assert "moved" in findings(tmp_path, behind=f"check = Net().{cast}")


@pytest.mark.parametrize("cast", ["model.double()", "model.one.double()", "(other if asked else model).double()"])
def test_a_cast_behind_the_training_may_come_before_the_next(tmp_path: Path, cast: str) -> None:
    assert f"in float64, which autocast leaves alone: by `{cast}`" in findings(tmp_path, behind=cast)


def test_a_part_of_what_is_trained_keeps_a_step(tmp_path: Path) -> None:
    text = BESIDE.replace("model({x})", "other(model({x}).double())")
    (tmp_path / "train.py").write_text(text.format(made="Net().cuda()", cast="other.double()", x="x.cuda()", behind=""))
    (said,) = migrate([tmp_path], Settings()).findings
    assert "in float64, which autocast leaves alone: by `other.double()`" in said.message


def test_a_loss_that_nobody_has_read_makes_nothing_low_of_it(tmp_path: Path) -> None:
    made = "eval(name)(3)"
    text = BESIDE.replace("nn.functional.mse_loss", "lib.loss")
    (tmp_path / "train.py").write_text(text.format(made=made, cast="model.cuda().double()", x="x.cuda()", behind=""))
    (said,) = migrate([tmp_path], Settings()).findings
    assert "in float64, which autocast leaves alone: by `model.cuda().double()`" in said.message


def test_by_default_it_is_only_what_is_asked_for(tmp_path: Path) -> None:
    assert "moved" in findings(tmp_path, cast="torch.set_default_dtype(torch.float32)")
