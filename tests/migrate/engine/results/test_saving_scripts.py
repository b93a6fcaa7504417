"""A script that saves the optimizer of a step in another file, and not its scaler, is told of."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Dtype, Settings

TRAINER = """
import torch
{imported}

class Trainer{base}:
    def __init__(self, model, optimizer):
        {first}
        self.model, self.optimizer = model, optimizer
        {last}

    def train(self, loader):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
MAIN = """
import torch
from trainer import Trainer


def save_model(path, model, optimizer):
    torch.save({saved}, path)


model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trainer = Trainer(model, optimizer)
for epoch in range(3):
    trainer.train([(torch.randn(4, 8), torch.randn(4, 8))] * 8)
    {calls}
"""
BOTH = '{"model": model.state_dict(), "optimizer": optimizer.state_dict()}'
MODEL = '{"model": model.state_dict()}'
SAVES = 'save_model("last.pth", model, optimizer)'
BASE = """
import torch


class Base:
    def __init__(self):
        self.optimizers = []

    def save(self, path):
        state = {"optimizers": []}
        for optimizer in self.optimizers:
            state["optimizers"].append(optimizer.state_dict())
        torch.save(state, path)
"""


def told(folder: Path, dtype: Dtype = Dtype.FP16, **files: str) -> list[tuple[str, int]]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    outcome = migrate([folder], Settings(dtype=dtype))
    assert [each.source.path.name for each in outcome.changed] == ["trainer.py"]
    return [(Path(each.path).name, each.line) for each in outcome.findings if each.code == "AMP611"]


@pytest.mark.parametrize(
    ("saved", "calls", "lines"),
    [(BOTH, SAVES, [("main.py", 7)]), (MODEL, SAVES, []), (BOTH, "pass", [])],
)
def test_a_script_that_saves_what_another_file_trains(
    tmp_path: Path, saved: str, calls: str, lines: list[tuple[str, int]]
) -> None:
    trainer = TRAINER.format(imported="", base="", first="", last="")
    main = MAIN.format(saved=saved, calls=calls)
    assert told(tmp_path, trainer=trainer, main=main) == lines


def test_an_inherited_method_that_saves_a_list_of_optimizers(tmp_path: Path) -> None:
    trainer = TRAINER.format(
        imported="from base import Base\n",
        base="(Base)",
        first="super().__init__()",
        last="self.optimizers.append(self.optimizer)",
    )
    main = MAIN.format(saved=MODEL, calls='trainer.save("last.pth")')
    assert told(tmp_path, trainer=trainer, base=BASE, main=main) == [("base.py", 12)]


def test_without_a_scaler_nothing_is_missing(tmp_path: Path) -> None:
    trainer = TRAINER.format(imported="", base="", first="", last="")
    assert not told(tmp_path, Dtype.BF16, trainer=trainer, main=MAIN.format(saved=BOTH, calls=SAVES))


AGENT = """
import torch


class Agent:
    def __init__(self, size):
        {first}
        self.net = torch.nn.Linear(size, 1).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x, y):
        self.step(x, y, self.net, self.optimizer)

    def step(self, x, y, net, optimizer):
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def save(self, path):
        torch.save({{"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}}, path)

    @classmethod
    def load(cls, path):
        checkpoint = torch.load(path)
        agent = cls(4)
        agent.net.load_state_dict(checkpoint["net"])
        agent.optimizer.load_state_dict(checkpoint["optimizer"])
        return agent
"""
PLAYS = """
import os
import torch
from trainer import Agent

agent = {agent}
for each in range(10):
    agent.update(torch.randn(2, 4), torch.randn(2, 1))
    agent.save("last.pt")
"""


@pytest.mark.parametrize(
    ("agent", "first", "is_told"),
    [
        ('Agent.load("last.pt") if os.path.exists("last.pt") else Agent(4)', "pass", True),
        ("Agent(4)", "pass", False),
    ],
)
def test_an_object_that_a_method_of_its_class_makes_and_loads_goes_on_without_its_scaler(
    tmp_path: Path, agent: str, first: str, is_told: bool
) -> None:
    trainer, main = AGENT.format(first=first), PLAYS.format(agent=agent)
    assert told(tmp_path, trainer=trainer, main=main) == [("trainer.py", 28)] * is_told


def test_what_sets_attributes_by_unknown_names_takes_no_method_away(tmp_path: Path) -> None:
    first = "[setattr(self, key, value) for key, value in torch.load('options.pt').items()]"
    trainer = AGENT.format(first=first)
    main = PLAYS.format(agent='Agent.load("last.pt") if os.path.exists("last.pt") else Agent(4)')
    assert told(tmp_path, trainer=trainer, main=main) == [("trainer.py", 28)]
