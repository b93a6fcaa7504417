"""`torch.autograd.backward(loss)` is the backward of what it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TRAINED = """\
import torch
from torch import autograd, nn

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.mse_loss(model(x), y)
    penalty = model(x + 1).abs().mean()
    losses = [loss, penalty]
    optimizer.zero_grad()
    {backward}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("backward", "after"),
    [
        ("torch.autograd.backward(loss)", "torch.autograd.backward(scaler.scale(loss))"),
        ("autograd.backward(tensors=loss)", "autograd.backward(tensors=scaler.scale(loss))"),
        ("autograd.backward(loss, None, True)", "autograd.backward(scaler.scale(loss), None, True)"),
        (
            "autograd.backward([loss, penalty], retain_graph=True)",
            "autograd.backward(scaler.scale([loss, penalty]), retain_graph=True)",
        ),
        ("autograd.backward(losses)", "autograd.backward(scaler.scale(losses))"),
    ],
)
def test_it_is_given_the_scaled_loss(backward: str, after: str) -> None:
    text = migrate_text(TRAINED.format(backward=backward), Settings()).after
    assert f"    {after}\n    scaler.step(optimizer)\n    scaler.update()\n" in text
    assert not migrate_text(text, Settings()).findings


def test_a_loss_that_is_computed_in_it_gets_a_name_in_a_region() -> None:
    text = TRAINED.format(backward="autograd.backward(nn.functional.mse_loss(model(x), y))")
    after = migrate_text(text, Settings()).after
    assert "step_loss = nn.functional.mse_loss(model(x), y)\n    autograd.backward(scaler.scale(step_loss))" in after


@pytest.mark.parametrize(
    "backward",
    [
        "autograd.backward(loss, torch.ones_like(loss))",
        "autograd.backward(loss, grad_tensors=torch.ones_like(loss))",
        "autograd.backward(each.sum() for each in losses)",
    ],
)
def test_gradients_that_are_given_and_losses_that_are_not_there_yet_stay(backward: str) -> None:
    plan = migrate_text(TRAINED.format(backward=backward), Settings())
    assert not plan.changed
    assert plan.findings[0].message.endswith("is not the backward of one loss")


def test_the_method_of_a_module_trains_by_it_as_by_that_of_a_loss() -> None:
    text = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.fc.parameters())

    def learn(self, x, y):
        loss = nn.functional.mse_loss(self.fc(x), y)
        self.optimizer.zero_grad()
        {}
        self.optimizer.step()


net = Net().cuda()
net.learn(torch.ones(8, 4).cuda(), torch.ones(8, 1).cuda())
"""
    by_loss = migrate_text(text.format("loss.backward()"), Settings()).after
    assert "self.scaler.scale(loss).backward()" in by_loss
    by_function = migrate_text(text.format("torch.autograd.backward(loss)"), Settings()).after
    given = "torch.autograd.backward(self.scaler.scale(loss))"
    assert by_function == by_loss.replace("self.scaler.scale(loss).backward()", given)
