"""AMP626 by what values are: numbers that float16 does not have, wherever they meet what a region makes float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCRIPT = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
        self.least = -1e9

    def forward(self, x, mask):
        scores = torch.matmul(self.q(x), self.k(x).transpose(-2, -1)) / 8**0.5
        {line}
        return scores.softmax(-1) @ x


def train(loader, amp):
    model = Attention().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    for x, y, mask in loader:
        with torch.amp.autocast("cuda", dtype=torch.{dtype}, enabled=amp):
            loss = F.cross_entropy(model(x, mask), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def script(line: str, dtype: str = "float16") -> str:
    return SCRIPT.format(line=line, dtype=dtype)


@pytest.mark.parametrize(
    "line",
    [
        "scores += mask.float() * -1e9",
        "scores += mask.float() * self.least",
        "scores -= 1e30 * (1 - mask)",
        "scores.add_((1.0 - mask.float()) * -1e9)",
        "scores.sub_(1e9 * (1 - mask))",
        "scores += torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask == 0, -1e9)",
        "scores = scores - 1e9",
        "mask = ((1 - mask.float()) * -1e9).to(scores.dtype)",
        "mask = ((1 - mask.float()) * -1e9).type_as(scores)",
    ],
)
def test_a_number_beyond_float16_that_makes_it_infinite_is_told(marked: Check, line: str) -> None:
    found = marked(script(f"{line}  # AMP626"))
    assert "is infinite in float16" in found[0].message


@pytest.mark.parametrize(
    "line",
    [
        "scores = torch.where(mask == 0, -1e9, scores)",
        "scores[mask == 0] = -1e9",
        "scores = scores.clamp(min=-1e9)",
        "scores = scores.masked_fill(mask == 0, torch.finfo(torch.float32).min)",
    ],
)
def test_a_number_beyond_float16_that_goes_in_as_it_is_raises(marked: Check, line: str) -> None:
    found = marked(script(f"{line}  # AMP626"))
    assert "raises where it is float16" in found[0].message


@pytest.mark.parametrize(
    ("line", "product"),
    [
        ("scores = scores * mask + (1 - mask.float()) * -1e30", "scores @ x"),
        ("scores = scores.float(); scores[mask == 0] = -1e30", "torch.bmm(scores, x)"),
        ("scores = scores.float(); scores.masked_fill_(mask == 0, -1e9)", "self.q(scores)"),
    ],
)
def test_a_number_beyond_float16_that_a_product_casts_is_told(marked: Check, line: str, product: str) -> None:
    text = script(line).replace("return scores.softmax(-1) @ x", f"return {product}  # AMP626")
    found = marked(text)
    assert "casts a number to float16 that is infinite there, and NaN times zero" in found[0].message
    assert "enabled=False" in found[0].hint


@pytest.mark.parametrize("product", ["scores.softmax(-1) @ x", "scores.exp() @ x", "scores.sum() * x"])
def test_a_number_beyond_float16_that_no_product_gets_is_right(clean: Check, product: str) -> None:
    text = script("scores = scores * mask + (1 - mask.float()) * -1e30")
    clean(text.replace("return scores.softmax(-1) @ x", f"return {product}"))


def test_attention_takes_a_mask_of_such_numbers(clean: Check) -> None:
    text = script("mask = (1 - mask.float()) * -1e9")
    clean(text.replace("scores.softmax(-1) @ x", "F.scaled_dot_product_attention(x, x, x, mask)"))


@pytest.mark.parametrize(
    "line",
    [
        "scores = scores + mask.float() * -1e9",  # promoted
        "scores += mask.float() * -1e4",
        "scores += mask.float() * float('-inf')",
        "scores += mask.float() * -1e9 * 1e-6",
        "scores = scores.float(); scores += mask.float() * -1e9",
        "mask = mask.float() * -1e9",
        "mask = ((1 - mask.float()) * -1e4).to(scores.dtype)",
        "mask = ((1 - mask.float()) * -1e9).to(x.dtype)",
        "scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)",
        "scores = scores.masked_fill(mask == 0, torch.finfo(torch.float16).min)",
    ],
)
def test_what_float16_has_or_what_is_float32_is_right(clean: Check, line: str) -> None:
    clean(script(line))


def test_bfloat16_has_these_numbers(clean: Check) -> None:
    clean(script("scores += mask.float() * -1e9", "bfloat16"), "bf16")
