"""Gradients that a script sets to nothing one by one are cleared as by `zero_grad()`."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    for p in model.parameters():
        {cleared}
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "cleared",
    [
        "p.grad.zero_()",
        "p.grad = None",
        "if p.grad is not None:\n            p.grad.zero_()",
        "if p.grad is not None:\n            p.grad.data.zero_()",
        "if p.grad is not None:\n            p.grad.detach_()\n            p.grad.zero_()",
        "if p.grad is not None:\n            p.grad = None",
    ],
)
def test_what_is_cleared_so_moves(cleared: str) -> None:
    after = migrate_text(TEXT.format(cleared=cleared), Settings()).after
    assert "scaler.step(optimizer)\n    scaler.update()" in after


@pytest.mark.parametrize(
    "cleared", ["p.grad[0].zero_()", "p.grad.clone().zero_()", "if p.ndim > 1:\n            p.grad.zero_()"]
)
def test_what_is_cleared_only_in_part_is_left(cleared: str) -> None:
    text = TEXT.format(cleared=cleared)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert any("add" in each.message for each in plan.findings)
