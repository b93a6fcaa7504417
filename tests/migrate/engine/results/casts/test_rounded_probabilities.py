"""A sigmoid sees float32 where a loss reads its result, wherever it stands: a cast behind it comes too late."""

from __future__ import annotations

from pathlib import Path

import torch
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

MODEL = """\
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)
        self.squash = nn.Sigmoid()

    def forward(self, x):
        return self.squash(self.head(x))
"""
TRAIN = """\
import torch
from model import Critic

critic = Critic().cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for x, y in loader:
    loss = torch.nn.functional.binary_cross_entropy(critic(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EITHER = """\
import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x.cuda())
    if args.squash:
        out = torch.sigmoid(out)
    loss = torch.nn.functional.binary_cross_entropy(out, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_sigmoid_of_a_model_in_another_file_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    outcome = migrate([tmp_path], Settings())
    plans = {each.source.path.name: each for each in outcome.plans}
    assert "return self.squash(self.head(x).float())" in plans["model.py"].after
    assert [(each.code, each.line) for each in plans["model.py"].findings] == [("AMP504", 11)]
    assert [each.code for each in plans["train.py"].findings] == ["AMP501"]


def test_a_sigmoid_on_one_of_the_ways_to_a_loss_sees_float32() -> None:
    assert "out = torch.sigmoid(out.float())" in migrate_text(EITHER, Settings()).after


def test_a_cast_behind_a_sigmoid_comes_too_late() -> None:
    logit = torch.tensor([9.0], dtype=torch.float16)
    assert torch.sigmoid(logit).float() == 1
    assert torch.sigmoid(logit.float()) < 1
