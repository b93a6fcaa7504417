"""AMP634: a loss is scaled, and nothing is computed in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TEXT = """
    def train(loader, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            {loss}
            scaler.scale(loss).backward(){mark}
            scaler.step(optimizer)
            scaler.update()

    train(loader, {model})
"""
LOSS = "loss = (model(x) - y).square().mean()"


def test_a_scaler_without_a_region_is_told(marked: Check) -> None:
    marked(TEXT.format(loss=LOSS, mark="  # AMP634", model="nn.Linear(4, 1).cuda()"))


@pytest.mark.parametrize(
    ("loss", "model"),
    [
        (f"with torch.autocast('cuda'):\n                {LOSS}", "nn.Linear(4, 1).cuda()"),
        (LOSS, "nn.Linear(4, 1).cuda().half()"),
        (LOSS, "make(4, 1)"),
    ],
)
def test_a_scaler_is_left_alone_where_something_may_be_half(clean: Check, loss: str, model: str) -> None:
    clean(TEXT.format(loss=loss, mark="", model=model))


def test_what_a_text_says_of_half_precision_computes_nothing(marked: Check) -> None:
    said = "# no autocast, and nothing in half precision\n    "
    marked("\n    " + said + TEXT.format(loss=LOSS, mark="  # AMP634", model="nn.Linear(4, 1).cuda()").lstrip())
