"""Gradients that are mended where they are not finite: a scaler has seen them, and skips the step all the same."""

from __future__ import annotations

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn

model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def mend(gradient):
    gradient[torch.isnan(gradient)] = 0


for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    {mended}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
FOR = "for p in model.parameters():\n        "
MENDED = [
    "p.grad[torch.isnan(p.grad)] = 0",
    "p.grad.data[~torch.isfinite(p.grad)] = 0.0",
    "p.grad[torch.isnan(p.grad) | torch.isinf(p.grad)] = 0",
    "p.grad.nan_to_num_(0.0)",
    "p.grad = torch.nan_to_num(p.grad)",
    "p.grad.data = torch.where(torch.isnan(p.grad), torch.zeros_like(p.grad), p.grad)",
    "p.grad.copy_(torch.nan_to_num(p.grad, nan=0.0))",
    "p.grad.masked_fill_(p.grad.isnan(), 0)",
    "torch.nan_to_num(p.grad, nan=0, posinf=1e5, neginf=-1e5, out=p.grad)",
    "if torch.isnan(p.grad).any():\n            p.grad.zero_()",
    "bad = torch.isnan(p.grad).any()\n        if bad:\n            p.grad = None",
    "mend(p.grad)",
    "mend(p.grad.data)",
]


@pytest.mark.parametrize("mended", MENDED)
def test_a_step_whose_gradients_are_mended_is_left(mended: str) -> None:
    text = TEXT.format(mended=FOR + mended)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "gradients that are not finite are mended behind unscale_()" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


@pytest.mark.parametrize(
    "mended",
    [
        "p.grad.clamp_(-1, 1)",
        "p.grad[p.grad.abs() > 1] = 1",
        "print(torch.isnan(p.grad).any())",
        "copy = p.grad.clone()\n        copy[torch.isnan(copy)] = 0\n        print(copy.norm())",
        "if index > 3:\n            p.grad.zero_()",
    ],
)
def test_other_changes_of_gradients_move(mended: str) -> None:
    text = TEXT.format(mended=FOR + mended).replace("for x, y in loader", "for index, (x, y) in enumerate(loader)")
    assert "scaler.unscale_(optimizer)\n    for p" in migrate_text(text, Settings()).after


def test_what_is_mended_a_scaler_has_seen() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum() * float("nan")).backward()
    scaler.unscale_(optimizer)
    weight.grad = torch.ones(1)
    scaler.step(optimizer)
    scaler.update()
    assert (weight.item(), scaler.get_scale()) == (0.0, 2.0)
