"""Where a step that has moved is told, and how often it is counted."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

TWO = """\
import torch
from torch import nn

loader = [(torch.randn(4, 8).cuda(), torch.randn(4, 1).cuda())] * 3


def train():
    first = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.Adam(first.parameters())
    for x, y in loader:
        loss = nn.functional.mse_loss(first(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for _ in range(2):
        second = nn.Linear(8, 1).cuda()
        other = torch.optim.Adam(second.parameters())
        for x, y in loader:
            loss = nn.functional.mse_loss(second(x), y)
            loss.backward()
            other.step()
            other.zero_grad()


train()
"""
ONE = """\
import torch
from torch import nn

loader = [(torch.randn(4, 8).cuda(), torch.randn(4, 1).cuda())] * 3
model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    LOSSES
    optimizer.step()
"""

TURNS = """\
import torch
from torch import nn

g, d = nn.Linear(8, 4).cuda(), nn.Linear(4, 1).cuda()
of_g, of_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for x in loader:
    of_d.zero_grad()
    d(x.cuda()).mean().backward()
    (1 - d(g(x.cuda()).detach())).mean().backward()
    of_d.step()
    of_g.zero_grad()
    loss = d(g(x.cuda())).mean()
    loss.backward()
    of_g.step()
"""


def moved(text: str) -> list[int]:
    """The lines at which it is told that a step has moved."""
    return [each.line for each in migrate_text(text, Settings()).findings if each.kind is Kind.MIGRATED]


def test_each_of_two_loops_that_share_a_scaler_is_told() -> None:
    assert moved(TWO) == [12, 20]


def test_so_is_each_of_two_optimizers_that_take_turns() -> None:
    assert moved(TURNS) == [8, 13]


@pytest.mark.parametrize(
    "losses",
    [
        "model(x).mean().backward()\n    (model(x) - y).abs().mean().backward()",
        "for part in x.chunk(2):\n        model(part).abs().mean().backward()\n    model(x).mean().backward()",
    ],
)
def test_what_goes_backward_for_one_step_is_told_once(losses: str) -> None:
    assert moved(ONE.replace("LOSSES", losses)) == [9 if losses.startswith("model") else 10]


def test_a_scaler_that_the_move_would_make_anew_is_none_that_is_there() -> None:
    text = ONE.replace("LOSSES", "model(x).mean().backward()").replace("for x, y", "for _ in range(3):\n  for x, y")
    head = "  head = nn.Linear(1, 1).cuda()\n  of_head = torch.optim.Adam(head.parameters())\n"
    text = text.replace("  for x, y", f"{head}  for x, y").replace("model(x)", "head(model(x))")
    text = text.replace("\n    optimizer.step()", "\n    optimizer.step()\n    of_head.step()\n    of_head.zero_grad()")
    (found,) = migrate_text(text, Settings()).findings
    assert found.message == "left as it was: a scaler would be made anew (line 9)"
