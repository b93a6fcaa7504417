"""`optimizer.backward(loss)` of a class that has no such method is no part of a step: it raises, before as after."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

OPTIMIZER = """\
import torch


class BertAdam(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-group["lr"])
"""
STEP = """\
model = torch.nn.Linear(8, 2).cuda()
optimizer = BertAdam(model.parameters())
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    if fp16:
        optimizer.backward(loss)
    else:
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MOVED = """\
    if fp16:
        optimizer.backward(loss)
    else:
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("importing", ["from optimization import BertAdam", "from optimization import *", ""])
def test_the_branch_that_goes_backward_by_the_loss_is_a_plain_step(tmp_path: Path, importing: str) -> None:
    (tmp_path / "optimization.py").write_text(OPTIMIZER)
    (tmp_path / "train.py").write_text(
        f"import torch\n{importing}\n\n{STEP}" if importing else f"{OPTIMIZER}\n\n{STEP}"
    )
    (changed,) = migrate([tmp_path], Settings()).changed
    assert MOVED in changed.after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.optim.Optimizer", "fp16.Wrapper"),
        (
            "    def step(",
            "    def __getattr__(self, name):\n        return getattr(self.inner, name)\n\n    def step(",
        ),
        ("    def step(", "    backward = scaled\n\n    def step("),
        ("@", "@"),
    ],
)
def test_a_wrapper_whose_backward_nobody_sees_stays(tmp_path: Path, old: str, new: str) -> None:
    text = f"import fp16\nfrom fp16 import scaled\n{OPTIMIZER}\n\n{STEP}"
    text = text.replace(old, new, 1) if old != "@" else text.replace("for x,", "optimizer.backward = scaled\nfor x,", 1)
    (tmp_path / "train.py").write_text(text)
    assert not migrate([tmp_path], Settings()).changed
