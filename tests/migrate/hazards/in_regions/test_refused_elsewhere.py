"""A loss that autocast refuses, in what a region calls: told at the call, where the region is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TRAIN = """
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            LOSS
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
HEAD = """
import torch
from torch import nn
import torch.nn.functional as F
from data import loader
"""
MODEL = "\nmodel = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()).cuda()\n"
LOSS = """
class Loss(nn.Module):
    def forward(self, p, t):
        return F.binary_cross_entropy(p, t)
"""


HELD = """
class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.bce = nn.BCELoss()

    def forward(self, p, t):
        return self.bce(p, t)
"""
WITHIN = """
def inner(p, t):
    return F.binary_cross_entropy(p, t)


def outer(p, t):
    return 2 * inner(p, t)
"""


def script(made: str, loss: str) -> str:
    """A script that trains with a loss, and with what it is made of before."""
    train = TRAIN.replace("\n    ", "\n").replace("LOSS", loss)
    return f"{HEAD}{made}{MODEL}{train}"


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        (f"{LOSS}\ncriterion = Loss()\n", "loss = criterion(model(x), y)  # AMP622"),
        (f"{LOSS}\ncriterion = Loss()\n", "loss = criterion.forward(model(x), y)  # AMP622"),
        (LOSS, "loss = 0.5 * Loss()(model(x), y)  # AMP622"),
        (f"{HELD}\ncriterion = Loss()\n", "out = model(x)\n        loss = 2 * criterion(out, y).mean()  # AMP622"),
        (WITHIN, "loss = outer(model(x), y)  # AMP622"),
    ],
)
def test_a_call_that_comes_to_a_refused_loss_is_told(marked_files: Check, made: str, loss: str) -> None:
    found = marked_files(train=script(made, loss))
    assert found[0].message.endswith(", which raises under CUDA's autocast")
    assert found[0].hint == "let the model end without its sigmoid, and use the form with logits"


TABLE = 'LOSSES = {"ce": nn.CrossEntropyLoss, "bce": KIND}\n'


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Loss", "criterion(model(x), y) may run, by what LOSSES[args.loss]() gives, self.bce(p, t) (line 12), which"),
        ("nn.BCELoss", "criterion(model(x), y) may raise under CUDA's autocast, by what LOSSES[args.loss]() gives"),
    ],
)
def test_so_is_one_to_what_a_table_may_give(marked_files: Check, kind: str, says: str) -> None:
    for key in ("[args.loss]", ".get(args.loss)"):
        made = f"{HELD}{TABLE.replace('KIND', kind)}criterion = LOSSES{key}()\n"
        (found,) = marked_files(train=script(made, "loss = criterion(model(x), y)  # AMP622"))
        assert found.message.startswith(says.replace("[args.loss]", key))


@pytest.mark.parametrize(
    "made",
    [
        "criterion = nn.BCEWithLogitsLoss() if args.amp else Loss()\n",
        "kind = nn.BCEWithLogitsLoss if args.amp else Loss\ncriterion = kind()\n",
        f'{TABLE.replace("KIND", "Loss")}criterion = LOSSES["ce"]()\n',
        f"{TABLE.replace('KIND', 'nn.BCEWithLogitsLoss')}criterion = LOSSES[args.loss]()\n",
    ],
)
def test_what_something_else_may_give_is_not(marked_files: Check, made: str) -> None:
    assert marked_files(train=script(HELD + made, "loss = criterion(model(x), y)")) == ()


def test_so_is_one_to_the_loss_of_another_file(marked_files: Check) -> None:
    text = script("from losses import Loss\n", "loss = Loss()(model(x), y)  # AMP622")
    (found,) = marked_files(train=text, losses=f"{HEAD}{LOSS}")
    assert found.message == (
        "Loss()(model(x), y) runs F.binary_cross_entropy(p, t) (losses.py:8), which raises under CUDA's autocast"
    )


def test_the_sigmoid_of_that_file_is_named(marked_files: Check) -> None:
    losses = f"{HEAD}\ndef bce(out, t):\n    return F.binary_cross_entropy(torch.sigmoid(out), t)\n"
    text = script("from losses import bce\n", "loss = bce(model[0](x), y)  # AMP622")
    (found,) = marked_files(train=text, losses=losses)
    assert found.hint == "use the form with logits, on out without the sigmoid"


OFF = LOSS.replace("return", "with torch.amp.autocast('cuda', enabled=False):\n            return").replace(
    "(p,", "(p.float(),"
)


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        (f"{LOSS}\ncriterion = Loss()\n", "p = model(x)\n    loss = criterion(p.float(), y)"),
        (OFF, "loss = Loss()(model(x), y)"),
        (LOSS.replace("cross_entropy", "cross_entropy_with_logits"), "loss = Loss()(model[0](x), y)"),
        (f"{LOSS}\ncriterion = Loss() if len(loader) > 4 else nn.MSELoss()\n", "loss = criterion(model(x), y)"),
    ],
)
def test_one_that_autocast_does_not_see_is_right(marked_files: Check, made: str, loss: str) -> None:
    marked_files(train=script(made, loss))
