"""Ways that exclude each other, by a test that is asked again behind a loop."""

from __future__ import annotations

import pytest

from .conftest import Check

LEFT_OVER = """
import torch
from data import batches, n
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
class Settings:
    def __init__(self):
        self.n = n
settings = Settings()
{helper}
for epoch in range(3):
    count = 0
    for i, x in enumerate(batches):
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        if {test}:
            {step}
        count += 1
    {then}
    if not ({again}):
        {step}
"""
STEP = "scaler.step(optimizer); scaler.update(); optimizer.zero_grad()"
HELPER = f"""
def finish(scaler, optimizer):
    {STEP}
"""


def _without_amp(text: str) -> str:
    region = '        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n            loss'
    for old, new in (
        ('scaler = torch.amp.GradScaler("cuda")\n', ""),
        (region, "        loss"),
        ("scaler.scale(loss)", "loss"),
        ("scaler.step(optimizer); scaler.update();", "optimizer.step();"),
        ("(scaler, optimizer)", "(optimizer)"),
    ):
        text = text.replace(old, new)
    return text


def _text(test: str, again: str = "", step: str = STEP, then: str = "pass", helper: str = "") -> str:
    return LEFT_OVER.format(test=test, again=again or test, step=step, then=then, helper=helper)


@pytest.mark.parametrize(
    ("test", "again"),
    [
        ("(i + 1) % n == 0", ""),
        ("(i + 1) % settings.n == 0", ""),
        ("(i + 1) % n == 0", "count % n == 0"),
        ("(count + 1) % n == 0", "(i + 1) % n == 0"),
        ("i + 1 == len(batches)", "count == len(batches)"),
    ],
)
def test_what_is_left_over_behind_a_loop_passes(wrong: Check, test: str, again: str) -> None:
    moved = _text(test, again)
    assert wrong(_without_amp(moved), moved) == ""
    helped = _text(test, again, "finish(scaler, optimizer)", helper=HELPER)
    assert wrong(_without_amp(helped), helped) == ""


@pytest.mark.parametrize(
    ("test", "again", "then"),
    [
        ("(i + 1) % n == 0", "i % n == 0", "pass"),
        ("(i + 1) % n == 0", "", "i = i + 1"),
        ("(i + 1) % n == 0", "", "n = n + 1"),
        ("(i + 1) % n == 0", "count % n == 0", "count = count + 1"),
        ("(i + 1) % settings.n == 0", "", "settings.n = 3"),
        ("i + 1 == len(batches)", "", "batches.append(x)"),
    ],
)
def test_what_may_have_stepped_already_is_refused(wrong: Check, test: str, again: str, then: str) -> None:
    text = _text(test, again, then=then)
    assert "behind the update of the scale" in wrong(_without_amp(text), text)
