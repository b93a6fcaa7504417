"""A loss that refuses operands of two precisions reads float32 behind a region, in a validation as in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings
from amp_migrate.tables.operators import AGREE_UNDER_AUTOCAST
from torch.nn import functional as F

Check = Callable[..., Any]

SCRIPT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 8), nn.Sigmoid())

    def forward(self, x, both):
        p = self.body(x)
        return (p, x) if both else p


def train(loader, model, criterion, optimizer, both):
    for x, y in loader:
        x, y = x.cuda(), y.float().cuda()
        outputs, _ = model(x, True)
        loss = criterion(outputs[0], y[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(loader, model, criterion, both):
    for x, y in loader:
        x, y = x.cuda(), y.float().cuda()
        if both:
            outputs = model(x, both)
        else:
            outputs = model(-x, both)
        print(criterion(outputs[0], y[0]).item())


loader = [(torch.rand(4, 16), torch.rand(4, 8))]
model = Net().cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters())
train(loader, model, criterion, optimizer, few)
validate(loader, model, criterion, few)
"""


def test_bceloss_reads_float32_behind_a_region(migrate: Check) -> None:
    """A sigmoid gives it by itself once it computes in float32."""
    assert "nn.Sigmoid()" in SCRIPT
    assert "        print(criterion(outputs[0], y[0]).item())\n" in migrate(SCRIPT).after
    low = SCRIPT.replace("nn.Sigmoid()", "nn.Hardsigmoid()")
    assert "        print(criterion(outputs[0].float(), y[0]).item())\n" in migrate(low).after


def test_binary_cross_entropy_is_the_loss_that_refuses_two_precisions() -> None:
    low, exact = torch.full((4,), 0.5, dtype=torch.float16), torch.full((4,), 0.5)
    with pytest.raises(RuntimeError, match="Found dtype"):
        F.binary_cross_entropy(low, exact)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits):
        loss(low, exact)


MIXED = """\
import torch
from torch import nn


class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(2, 32), nn.Linear(32, 2)

    def forward(self, x):
        state = torch.zeros(x.size(1), 32, device=x.device)
        for t in range(len(x)):
            state = {mixed}
        return self.out(state)


net = Leaky().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.load("batches.pt"):
    loss = (net(x.cuda()) - x.cuda().mean(0)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("mixed", "cast"),
    [
        ("torch.lerp(state, self.inp(x[t]), 0.2)", "torch.lerp(state, self.inp(x[t]).float(), 0.2)"),
        ("state.lerp(self.inp(x[t]), 0.2)", "state.lerp(self.inp(x[t]).float(), 0.2)"),
    ],
)
def test_what_autocast_does_not_know_gets_operands_of_one_precision(mixed: str, cast: str) -> None:
    """`lerp` raises at operands of two precisions, and is on none of autocast's lists."""
    plan = migrate_text(MIXED.format(mixed=mixed), Settings())
    assert cast in plan.after
    assert "scaler.step(optimizer)" in plan.after


@pytest.mark.parametrize("name", sorted(AGREE_UNDER_AUTOCAST))
def test_such_an_operator_raises_at_operands_of_two_precisions(name: str) -> None:
    operands = torch.rand(4), torch.rand(4).half()
    more = (0.5,) if name == "lerp" else ()
    with pytest.raises(RuntimeError, match=r"dtype|did not match"):
        getattr(torch, name)(*operands, *more)
