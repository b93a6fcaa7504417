"""A number that is chosen by a dtype which a region changes is told: outside of one the network has another."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

CHOSEN = "a number is chosen by a dtype that a region changes: "
SCRIPT = """\
import torch
from torch import nn

SMALL, SMALLER = 1e-3, 1e-5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 1)
        self.eps = 1e-5

    def forward(self, x):
        x = self.first(x)
{chosen}
        return self.last(x) * eps


def epsilon(x):
    if x.dtype == torch.float16:
        return 1e-3
    return 1e-5


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in loader:
    optimizer.zero_grad()
    loss = net(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""


def told(chosen: str, settings: Settings | None = None) -> list[str]:
    plan = migrate_text(SCRIPT.format(chosen=indent(chosen, " " * 8)), settings or Settings())
    assert "autocast(" in plan.after
    return [each.message.removeprefix(CHOSEN) for each in plan.findings if each.message.startswith(CHOSEN)]


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        ("eps = 1e-5 if x.dtype == torch.float32 else 1e-3", "1e-05 or 0.001"),
        ("eps = 1e-3 if x.dtype in (torch.float16, torch.bfloat16) else 1e-5", "0.001 or 1e-05"),
        ("eps = 1e-3 if not x.dtype == torch.float and self.training else 1e-5", "0.001 or 1e-05"),
        ("dtype = x.dtype\nif dtype == torch.half:\n    eps = SMALL\nelse:\n    eps = SMALLER", "SMALL or SMALLER"),
        ("eps = 1e-5\nif x.dtype != torch.float32:\n    eps = 1e-3", "0.001 or 1e-05"),
        ("eps = 1e-3 if torch.float16 == x.dtype else self.eps", "0.001 or self.eps"),
        ("eps = epsilon(x)", "0.001 or 1e-05"),
    ],
)
def test_a_number_that_is_another_in_a_region_is_told(chosen: str, numbers: str) -> None:
    assert told(chosen) == [numbers]


def test_the_number_is_another_in_bfloat16_too() -> None:
    assert told("eps = 1e-5 if x.dtype == torch.float32 else 1e-3", Settings(dtype=Dtype.BF16)) == ["1e-05 or 0.001"]
    assert told("eps = 1e-3 if x.dtype == torch.float16 else 1e-5", Settings(dtype=Dtype.BF16)) == []


@pytest.mark.parametrize(
    "chosen",
    [
        "eps = 1e-3 if x.dtype == torch.float64 else 1e-5",
        "eps = 1 if x.dtype == torch.uint8 else 255",
        "eps = 1e-5 if x.dtype in (torch.float16, torch.float32) else 1e-3",
        "eps = 1e-3 if self.first.weight.dtype == torch.float16 else 1e-5",
        "eps = 1e-3 if x.float().dtype == torch.float16 else 1e-5",
        "eps = 1e-3 if x.dtype == x.dtype else 1e-5",
        "eps = -6e4 if x.dtype == torch.float16 else -1e9",
        "eps = 1e-5 if x.dtype == torch.float32 else 1e-5",
        "eps = x.float() if x.dtype == torch.float16 else x",
        "eps = 1\nif x.dtype == torch.float16:\n    x = x.float()",
        "eps = torch.finfo(x.dtype).eps",
    ],
)
def test_what_is_the_same_or_belongs_to_a_precision_is_not(chosen: str) -> None:
    assert told(chosen) == []
