"""Functions of the project that take arrays and tensors: what calls them with a tensor gives it in float32."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import numpy as np
import torch
from torch import nn


def squash(z):
    try:
        return 1 / (1 + np.exp(-z))
    except TypeError:
        return 1 / (1 + torch.exp(-z))


def hits(scores, target):
    return ((squash(scores) > 0.5) == target).mean()


net, criterion = nn.Linear(8, 1).cuda(), nn.BCELoss()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x, y = torch.rand(16, 8).cuda(), torch.ones(16).cuda()
    scores = net(x).squeeze(1)
    loss = criterion({squashed}, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(hits(scores.detach().cpu().numpy(), y.cpu().numpy()))
"""


@pytest.mark.parametrize("squashed", ["squash({})", "squash(z={})"])
def test_a_sigmoid_of_arrays_and_tensors_gets_float32(squashed: str) -> None:
    plan = migrate_text(SCRIPT.format(squashed=squashed.format("scores")), Settings())
    assert f"    loss = criterion({squashed.format('scores.float()')}" in plan.after
    assert "hits(scores.float().detach().cpu().numpy(), " in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_what_only_arrays_are_given_stays() -> None:
    text = SCRIPT.format(squashed="torch.sigmoid(scores)")
    after = migrate_text(text, Settings()).after
    assert "((squash(scores) > 0.5) == target)" in after
    assert "return 1 / (1 + np.exp(-z))" in after
