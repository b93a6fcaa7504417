"""AMP637: a fused SGD with momentum beside a scaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]

MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)"
SCRIPT = """
model = nn.Linear(8, 1).cuda()
{made}
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
FLOAT32 = f"""\
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
{MADE}
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize(("fused", "has_momentum"), [(False, False), (True, True)])
def test_a_skipped_first_step_of_a_fused_sgd_leaves_momentum_behind(fused: bool, has_momentum: bool) -> None:
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    assert weight.tolist() == [1.0] * 3
    assert (optimizer.state[weight].get("momentum_buffer") is not None) is has_momentum


@pytest.mark.parametrize(
    "made",
    [
        f"{MADE}  # AMP637",
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, args.momentum, fused=True)  # AMP637",
        f"def make():\n    return {MADE.removeprefix('optimizer = ')}  # AMP637\n\n\noptimizer = make()",
    ],
)
def test_fused_momentum_beside_a_scaler_is_told(marked: Check, made: str) -> None:
    marked(SCRIPT.format(made=made))


@pytest.mark.parametrize(
    "made",
    [
        MADE.replace(", fused=True", ""),
        MADE.replace("True", "False"),
        MADE.replace("0.9", "0.0"),
        MADE.replace("momentum=0.9, ", ""),
        "optimizer = torch.optim.Adam(model.parameters(), fused=True)",
        f"other = {MADE.removeprefix('optimizer = ')}\noptimizer = torch.optim.Adam(model.parameters())",
    ],
)
def test_what_loses_nothing_is_not(clean: Check, made: str) -> None:
    clean(SCRIPT.format(made=made))


@pytest.mark.parametrize(("dtype", "is_told"), [(Dtype.FP16, True), (Dtype.AUTO, True), (Dtype.BF16, False)])
def test_a_step_that_moves_to_a_scaler_is_told(dtype: Dtype, is_told: bool) -> None:
    found = [each.code for each in migrate_text(FLOAT32, Settings(dtype)).findings]
    assert found == (["AMP637", "AMP501"] if is_told else ["AMP501"])
