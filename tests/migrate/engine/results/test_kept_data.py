"""A module's own tensor that gets its data in a region has float32 in it: the dtype is its own from then on."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

NORMED = """\
import torch
from torch import nn


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 8))
        MADE

    def forward(self, x):
        STORED
        return nn.functional.linear(x, self.weight / self.u.dot(torch.mv(self.weight, self.v)))


net = nn.Sequential(Normed(), nn.ReLU(), nn.Linear(16, 1)).cuda()
optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
for step in range(100):
    x, y = torch.randn(8, 8).cuda(), torch.rand(8, 1).cuda()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""
PARAMETERS = """\
self.u = nn.Parameter(torch.randn(16), requires_grad=False)
        self.v = nn.Parameter(torch.randn(8), requires_grad=False)"""
BUFFERS = """\
self.register_buffer("u", torch.randn(16))
        self.register_buffer("v", torch.randn(8))"""
PRODUCT = "torch.mv(self.weight.detach(), self.v)"


def stored(made: str, statement: str) -> list[str]:
    """The lines that a statement of the forward becomes."""
    text = NORMED.replace("MADE", made).replace("STORED", statement)
    after = migrate_text(text, Settings()).after
    assert "scaler.step(optimizer)" in after
    return after.partition("def forward(self, x):\n")[2].partition("        return")[0].split("\n        ")


@pytest.mark.parametrize("made", [PARAMETERS, BUFFERS])
def test_what_a_region_makes_low_is_cast(made: str) -> None:
    kept = f"self.u.data = {PRODUCT}"
    (line,) = stored(made, kept)
    assert line.strip() == f"{kept}.float()"


@pytest.mark.parametrize(
    "statement",
    [
        f"self.u.data.copy_({PRODUCT})",  # which keeps its dtype
        "self.u.data = self.u.data * 0.9",
        "self.u.data = torch.exp(self.u)",
        f"self.u.detach().data = {PRODUCT}",  # of a tensor that is nobody's
    ],
)
def test_what_stays_float32_is_not(statement: str) -> None:
    assert "\n        ".join(stored(PARAMETERS, statement)).strip() == statement


def test_a_part_of_the_weights_by_name_is_cast() -> None:
    statement = f'u = getattr(self, "u")\n        u.data = {PRODUCT}'
    assert stored(PARAMETERS, statement)[-1].strip() == f"u.data = {PRODUCT}.float()"
