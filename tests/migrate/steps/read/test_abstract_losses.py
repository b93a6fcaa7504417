"""A loss that a method computes which only derived classes write: the forward is in each of theirs."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
from abc import ABC, abstractmethod

import torch
from torch import nn


class Trainer{bases}:
    def __init__(self):
        self.net, self.other = nn.Linear(4, 2).cuda(), nn.Linear(4, 2).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    {stub}

    def update(self, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def learn(self, x, y):
        loss = self.compute_loss(x, y)
        self.update(self.optimizer, loss)


class Regression(Trainer):
    def compute_loss(self, x, y):
        with torch.no_grad():
            weight = self.other(x).abs().mean()
        return weight * nn.functional.mse_loss(self.net(x), y)

{more}
trainer = Regression()
for x, y in torch.load("batches.pt"):
    trainer.learn(x.cuda(), y.cuda())
"""
OTHER = """
class Other(Trainer):
    def compute_loss(self, x, y):
        {body}

"""
RAISES = "def compute_loss(self, x, y):\n        raise NotImplementedError"


@pytest.mark.parametrize(
    ("bases", "stub"),
    [
        ("", RAISES),
        ("", 'def compute_loss(self, x, y):\n        """What is minimized."""\n        raise NotImplementedError()'),
        ("(ABC)", "@abstractmethod\n    def compute_loss(self, x, y):\n        ..."),
        ("(ABC)", "@abstractmethod\n    def compute_loss(self, x, y):\n        pass"),
    ],
)
@pytest.mark.parametrize("more", ["", OTHER.format(body="return nn.functional.l1_loss(self.net(x), y)")])
def test_the_forward_is_in_what_derived_classes_write(bases: str, stub: str, more: str) -> None:
    plan = migrate_text(SCRIPT.format(bases=bases, stub=stub, more=more), Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert "dtype=torch.float16):\n            loss = self.compute_loss(x, y)\n" in plan.after
    assert plan.after.count("torch.amp.autocast(") - plan.after.count("enabled=False") == 1


@pytest.mark.parametrize(
    ("stub", "more"),
    [
        (RAISES, OTHER.format(body="return (x - y).mean()")),
        (RAISES, OTHER.format(body="loss = self.net(x).mean()\n        loss.backward()\n        return loss")),
        ("def compute_loss(self, x, y):\n        return (x - x).mean()", ""),
    ],
)
def test_one_of_them_does_something_else(stub: str, more: str) -> None:
    plan = migrate_text(SCRIPT.format(bases="", stub=stub, more=more), Settings())
    assert "AMP501" not in [each.code for each in plan.findings]
