"""A histogram of gradients raises where a scaler has skipped their step, which is told."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.questions import OF_SKIPPED
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import numpy as np
import torch
from torch import nn

model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def log(net):
    for name, p in net.named_parameters():
        {counted}


for x, y in torch.load("batches.pt"):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    log(model)
"""


def told(counted: str, dtype: Dtype = Dtype.FP16) -> list[str]:
    plan = migrate_text(TEXT.format(counted=counted), Settings(dtype=dtype))
    assert "autocast" in plan.after
    return [each.hint for each in plan.findings if each.message == OF_SKIPPED]


@pytest.mark.parametrize(
    "counted",
    [
        "print(name, np.histogram(p.grad.data.cpu().numpy(), bins=100))",
        "print(name, np.histogram_bin_edges(p.grad.cpu().numpy()))",
        "print(name, np.histogram(p.grad.cpu().numpy(), 100, None))",
    ],
)
def test_a_histogram_that_takes_its_range_from_gradients(counted: str) -> None:
    (hint,) = told(counted)
    assert "isfinite" in hint
    assert told(counted, Dtype.BF16) == []


@pytest.mark.parametrize(
    "counted",
    [
        "print(name, np.histogram(p.grad.cpu().numpy(), bins=100, range=(-1, 1)))",
        "print(name, np.histogram(p.detach().cpu().numpy(), bins=100))",
        "if torch.isfinite(p.grad).all():\n            print(name, np.histogram(p.grad.cpu().numpy()))",
    ],
)
def test_a_histogram_that_does_not_raise(counted: str) -> None:
    assert told(counted) == []
