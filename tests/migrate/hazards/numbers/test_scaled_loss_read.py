"""AMP636: numbers that are read of a loss which is multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCRIPT = """
def train(loader, amp):
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast("cuda", enabled=amp):
            loss = F.mse_loss(model(x), y)
        {scales}
        scaler.step(optimizer)
        scaler.update()
        {reads}
    return total
"""
NAMED = "loss = scaler.scale(loss); loss.backward()"
BESIDE = "scaled = scaler.scale(loss); scaled.backward()"


def script(reads: str, scales: str = NAMED) -> str:
    return SCRIPT.format(reads=reads, scales=scales)


@pytest.mark.parametrize(
    ("scales", "reads"),
    [
        (NAMED, "total += loss.item()"),
        (NAMED, "print(float(loss))"),
        (NAMED, "print(f'{loss.detach().cpu().item():.3f}')"),
        (NAMED, "total += (loss / 4).item() * len(x)"),
        (BESIDE, "total += scaled.item()"),
    ],
)
def test_a_number_of_a_scaled_loss_is_told(marked: Check, scales: str, reads: str) -> None:
    marked(script(f"{reads}  # AMP636", scales))


@pytest.mark.parametrize(
    ("scales", "reads"),
    [
        ("scaler.scale(loss).backward()", "total += loss.item()"),
        (BESIDE, "total += loss.item()"),
        (NAMED, "total += loss.item() / scaler.get_scale()"),
        (NAMED, "assert math.isfinite(loss.item())"),
        (NAMED, "loss = F.mse_loss(model(x), y); total += loss.item()"),
        (NAMED, "print(loss.shape, x.mean().item())"),
        ("total += loss.item(); loss = scaler.scale(loss); loss.backward()", "pass"),
    ],
)
def test_a_number_of_the_loss_itself_is_right(clean: Check, scales: str, reads: str) -> None:
    clean(script(reads, scales))


def test_a_number_of_a_gradient_is_told_as_such(marked: Check) -> None:
    marked(script("pass", f"{NAMED}; print(model.weight.grad.norm().item())  # AMP601"))
