"""A loss that autocast refuses, of an object that holds tensors: it is kept in float32 where it is computed."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

_MAKING = {
    "dictionary": '{"p": p, "h": h}',
    "tuple": "(p, h)",
    "object": "Output(p, h)",
    "distribution": "Normal(p, h.exp())",
}
_READING = {
    "dictionary": ('out["p"]', 'out["h"]'),
    "tuple": ("out[0]", "out[1]"),
    "object": ("out.p", "out.h"),
    "distribution": ("out.mean.sigmoid()", "out.entropy()"),
}
_TEXT = """\
import torch
from dataclasses import dataclass
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F


@dataclass
class Output:
    p: torch.Tensor
    h: torch.Tensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        p = torch.sigmoid(self.head(h))
        return {made}


def loss_function(out, y):
    loss = F.binary_cross_entropy({p}, y)
    return loss + {h}.mean()


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for i in range(10):
    y = torch.rand(4, 1, device="cuda")
    out = model(torch.randn(4, 8, device="cuda"))
    loss = loss_function(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("kind", _MAKING)
def test_a_refused_loss_of_what_cannot_be_cast_stays_in_float32_where_it_is(kind: str) -> None:
    p, h = _READING[kind]
    outcome = migrate_text(_TEXT.format(made=_MAKING[kind], p=p, h=h), Settings())
    assert [each.code for each in outcome.findings if each.code != "AMP504"] == ["AMP501"]
    assert (
        '        out = model(torch.randn(4, 8, device="cuda"))\n        loss = loss_function(out, y)\n' in outcome.after
    )
    assert "enabled=False):\n        loss = F.binary_cross_entropy(" in outcome.after
    assert "out.float()" not in outcome.after
    assert "scaler.step(optimizer)" in outcome.after
