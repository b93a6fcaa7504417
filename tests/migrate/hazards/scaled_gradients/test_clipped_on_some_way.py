"""AMP601 where gradients are unscaled before they are clipped, but not on every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

DIRECTLY = """
def train(model, loader, ranks, amp, most):
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled={enabled})
    for x, y in loader:
        with torch.amp.autocast("cuda", dtype=torch.float16, enabled={enabled}):
            loss = F.cross_entropy(model(x), y)
        {backward}
        {between}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0){mark}
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
SCALED = "scaler.scale(loss).backward()"
IN_ONE = "if ranks > 1:\n            scaler.unscale_(optimizer)"


def test_gradients_that_are_unscaled_under_a_condition_of_something_else(marked: Check) -> None:
    found = marked(DIRECTLY.format(enabled=True, backward=SCALED, between=IN_ONE, mark="  # AMP601"))
    assert "on some way" in found[0].message


@pytest.mark.parametrize(
    ("enabled", "backward", "between"),
    [
        (True, SCALED, "scaler.unscale_(optimizer)"),
        # A scaler that is switched off scales by one.
        ("amp", SCALED, "if amp:\n            scaler.unscale_(optimizer)"),
    ],
)
def test_gradients_that_are_true_wherever_they_are_scaled_are_right(
    clean: Check, enabled: object, backward: str, between: str
) -> None:
    clean(DIRECTLY.format(enabled=enabled, backward=backward, between=between, mark=""))


def test_a_test_that_may_be_the_one_that_decides_about_the_scale_says_nothing(clean: Check) -> None:
    clean(
        """
        def train(model, loader, amp, uses_amp):
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with torch.amp.autocast("cuda", dtype=torch.float16, enabled=amp):
                    loss = F.cross_entropy(model(x), y)
                if amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                if uses_amp:
                    scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if amp:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                optimizer.zero_grad()
        """
    )


METHODS = """
class Precision:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def scaled(self, loss):
        return self.scaler.scale(loss)

    def true_gradients(self, optimizer):
        self.scaler.unscale_(optimizer)

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()


def train(model, loader, ranks):
    optimizer = torch.optim.AdamW(model.parameters())
    precision = Precision()
    for x, y in loader:
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        precision.scaled(loss).backward()
        {between}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0){mark}
        precision.step(optimizer)
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("between", ["if ranks > 1:\n            precision.true_gradients(optimizer)", "pass"])
def test_gradients_that_methods_scale_and_unscale(marked: Check, between: str) -> None:
    marked(METHODS.format(between=between, mark="  # AMP601"))


def test_gradients_that_methods_scale_and_unscale_on_every_way_are_right(clean: Check) -> None:
    clean(METHODS.format(between="precision.true_gradients(optimizer)", mark=""))
