"""What goes backward from a gradient: it is scaled unless that gradient is, and told where nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

HEAD = """\
import torch
from torch import nn
from library import gradient_of, loader

first, second = nn.Conv2d(4, 1, 3).cuda(), nn.Conv2d(1, 3, 3).cuda()
"""
CUT = """
          optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     depth = first(x)
        ~     cut = depth.detach().requires_grad_()
        ~     loss = nn.functional.mse_loss(second(cut), y)
              optimizer.zero_grad()
        ~     loss.backward()
        GOES ON
        ~     optimizer.step()
"""
MAY_BE = "a loss is scaled that goes backward from a gradient in which the loss scale may be already"


def cut_by_hand(body: str) -> str:
    """Two networks, through the first of which a script goes backward by itself."""
    return CUT.replace("        GOES ON", body.strip("\n"))


@pytest.mark.parametrize(
    "body",
    [
        "              depth.backward(cut.grad)",
        "              depth.backward(gradient=cut.grad, retain_graph=True)",
        "              grad = cut.grad.data * 2\n              depth.backward(grad)",
        "              grad = cut.grad.clone()\n              cut.grad = None\n              depth.backward(grad / 2)",
    ],
)
def test_what_goes_on_from_a_scaled_gradient_is_not_scaled_again(rewrites: Check, body: str) -> None:
    plan = rewrites(cut_by_hand(body), head=HEAD)
    assert [each.code for each in plan.findings] == ["AMP501"]


@pytest.mark.parametrize(
    "gradient", ["torch.ones_like(depth)", "cut.grad / cut.grad.norm()", "torch.tensor(-1.0).cuda().expand_as(depth)"]
)
def test_what_goes_on_from_any_other_gradient_is_scaled(rewrites: Check, gradient: str) -> None:
    body = f"""
        -     depth.backward({gradient})
        +     scaler.scale(depth).backward({gradient})
    """
    plan = rewrites(cut_by_hand(body.rstrip()), head=HEAD)
    assert [each.code for each in plan.findings] == ["AMP501"]


@pytest.mark.parametrize("gradient", ["gradient_of(y)", "y", "cut.grad if len(y) > 1 else torch.ones_like(depth)"])
def test_it_is_told_where_nobody_knows_of_a_scale(rewrites: Check, gradient: str) -> None:
    body = f"""
              grad = {gradient}
        -     depth.backward(grad)
        +     scaler.scale(depth).backward(grad)
    """
    plan = rewrites(cut_by_hand(body.rstrip()), head=HEAD)
    told = [each for each in plan.findings if each.message == MAY_BE]
    assert [each.code for each in told] == ["AMP504"]
    assert "depth.backward(grad)" in plan.source.text.splitlines()[told[0].line - 1]


def test_a_chain_of_several_cuts_is_scaled_once(rewrites: Check) -> None:
    rewrites(
        """
          third = nn.Conv2d(3, 3, 3).cuda()
          parts = (first, second, third)
          optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")


          def cut(made):
              return made.detach().requires_grad_()


          def train(x, y):
        ~     depth = first(x)
        ~     its_cut = cut(depth)
        ~     color = second(its_cut)
        ~     cut_again = cut(color)
        ~     loss = nn.functional.mse_loss(third(cut_again), y)
              optimizer.zero_grad()
        ~     loss.backward()
              color.backward(cut_again.grad)
              depth.backward(its_cut.grad)
        ~     optimizer.step()


          for x, y in loader:
              train(x, y)
        """,
        head=HEAD,
    )


def test_bfloat16_has_no_scale_to_ask_for(rewrites: Check) -> None:
    diff = cut_by_hand("              depth.backward(gradient_of(cut.grad))")
    plan = rewrites(diff.replace('        + scaler = torch.amp.GradScaler("cuda")\n', ""), "bf16", head=HEAD)
    assert MAY_BE not in {each.message for each in plan.findings}
