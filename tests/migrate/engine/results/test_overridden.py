"""A method that others override: of an object that nobody makes, it is not the one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

BASE = """\
import abc
import torch


class Base:
    def __init__(self):
        self.net = self.made()
        self.optimizers = self.steppers()

    {made}

    def steppers(self):
        return {{}}

    def epoch(self, data):
        raise NotImplementedError

    def train(self, data):
        for _ in range(3):
            self.epoch(data)
"""
DERIVED = """\
import torch
from base import Base
from torch import nn


class {name}(Base):
    def made(self):
        return nn.Linear(8, 3).cuda()

    def steppers(self):
        return {{"a": torch.optim.SGD(self.net.parameters(), lr=0.1)}}

    def epoch(self, data):
        for x, y in data:
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.optimizers["a"].zero_grad()
            loss.backward()
            self.optimizers["a"].step()
"""


@pytest.mark.parametrize(
    ("made", "is_told"),
    [
        ("def made(self):\n        raise NotImplementedError", False),
        ('def made(self):\n        """The model."""\n        raise NotImplementedError("made")', False),
        ("@abc.abstractmethod\n    def made(self):\n        ...", False),
        ("def made(self):\n        raise ValueError", True),
    ],
)
def test_a_base_class_that_nobody_makes_ends_nothing(tmp_path: Path, made: str, is_told: bool) -> None:
    (tmp_path / "base.py").write_text(BASE.format(made=made))
    for name in ("One", "Two"):
        (tmp_path / f"{name.lower()}.py").write_text(DERIVED.format(name=name))
    found = migrate([tmp_path], Settings()).findings
    assert any("what this calls never returns" in each.message for each in found) is is_told
    assert [Path(each.path).name for each in found if "training step moved" in each.message] == ["one.py", "two.py"]
