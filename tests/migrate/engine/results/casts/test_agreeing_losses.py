"""A loss that refuses operands of two precisions reads float32 behind a region, in a validation as in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
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
