"""Normalization over neighbouring channels: autocast has no rule for it, and it adds up squares of its input."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.events import OF_NEIGHBOURS
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.LocalResponseNorm(5), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        x = {norm}
        return self.head(x.mean(dim=(2, 3)))


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


def lines(norm: str, dtype: Dtype = Dtype.FP16) -> list[int]:
    plan = migrate_text(TEXT.format(norm=norm), Settings(dtype=dtype))
    assert "autocast" in plan.after
    return [each.line for each in plan.findings if OF_NEIGHBOURS in each.message]


@pytest.mark.parametrize(
    "norm", ["self.norm(x)", "F.local_response_norm(x, 5)", "nn.LocalResponseNorm(2)(x)", "nn.CrossMapLRN2d(5)(x)"]
)
def test_squares_of_features_are_told_of_in_float16(norm: str) -> None:
    assert lines(norm) == [13]
    assert lines(norm, Dtype.BF16) == []


@pytest.mark.parametrize("norm", ["self.norm(x.float())", "F.group_norm(x, 2)", "F.layer_norm(x, x.shape[1:])"])
def test_what_computes_in_float32_is_not(norm: str) -> None:
    assert lines(norm) == []
