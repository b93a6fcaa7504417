"""Gradients of an optimizer that steps under a test are unscaled under it, where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

HEAD = """\
import torch
from torch import nn

encoder, decoder = nn.Linear(8, 8).cuda(), nn.Linear(8, 4).cuda()


def clip(optimizer, limit):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.data.clamp_(-limit, limit)


"""
CAPTIONS = """
        - def train(loader, first, second, limit=5.0, fine=True, every=2):
        + def train(loader, first, second, scaler, limit=5.0, fine=True, every=2):
              for i, (x, y) in enumerate(loader):
        ~         loss = nn.functional.cross_entropy(decoder(encoder(x.cuda())), y.cuda())
                  first.zero_grad()
                  if second is not None:
                      second.zero_grad()
        ~         loss.backward()
        CLIPPED
        -         first.step()
        +         scaler.step(first)
                  if TEST:
        -             second.step()
        +             scaler.step(second)
        +         scaler.update()


          first = torch.optim.Adam(decoder.parameters())
          second = torch.optim.Adam(encoder.parameters())
        + scaler = torch.amp.GradScaler("cuda")
        - train([], first, second)
        + train([], first, second, scaler)
"""
BY_FUNCTION = """
        +         scaler.unscale_(first)
                  clip(first, limit)
                  if TEST:
        +             scaler.unscale_(second)
                      clip(second, limit)
"""


def captions(clipped: str, test: str = "second is not None") -> str:
    return CAPTIONS.replace("        CLIPPED\n", clipped.lstrip("\n")).replace("TEST", test)


@pytest.mark.parametrize("test", ["second is not None", "second", "fine", "not fine", "i % every == 0"])
def test_clipping_under_the_test_of_the_step(rewrites: Check, test: str) -> None:
    plan = rewrites(captions(BY_FUNCTION, test), head=HEAD)
    assert {each.code for each in plan.findings} == {"AMP501"}


def test_clipping_under_one_more_test(rewrites: Check) -> None:
    plan = rewrites(
        captions(
            """
                  if limit is not None:
        +             scaler.unscale_(first)
                      clip(first, limit)
                      if second is not None:
        +                 scaler.unscale_(second)
                          clip(second, limit)
            """.rstrip(" ")
        ),
        head=HEAD,
    )
    assert {each.code for each in plan.findings} == {"AMP501"}


def test_gradients_that_may_be_of_either_are_unscaled_where_there_is_a_second(rewrites: Check) -> None:
    plan = rewrites(
        captions(
            """
        +         scaler.unscale_(first)
        +         if second is not None:
        +             scaler.unscale_(second)
                  nn.utils.clip_grad_value_(decoder.parameters(), limit)
                  if second is not None:
                      nn.utils.clip_grad_value_(encoder.parameters(), limit)
            """.rstrip(" ")
        ),
        head=HEAD,
    )
    assert {each.code for each in plan.findings} == {"AMP501"}


@pytest.mark.parametrize(
    ("test", "between"),
    [
        ("i % every == 0", "        every = 3\n"),
        ("fine", "        if i == 7:\n            continue\n"),
        ("torch.rand(1) < 0.5", ""),
    ],
)
def test_a_test_that_may_come_to_something_else_by_the_step(leaves: Check, test: str, between: str) -> None:
    text = (
        "def train(loader, optimizer, fine=True, every=2):\n"
        "    for i, (x, y) in enumerate(loader):\n"
        "        loss = nn.functional.cross_entropy(decoder(x.cuda()), y.cuda())\n"
        "        loss.backward()\n"
        f"        if {test}:\n"
        "            clip(optimizer, 5.0)\n"
        f"{between}"
        f"        if {test}:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n\n\n"
        "train([], torch.optim.Adam(decoder.parameters()))\n"
    )
    leaves(text, "gradients are read where the optimizer does not always step", head=HEAD)
