"""What goes backward for no optimizer, beside a training that has one: the training moves, and the rest stays."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
x, y = torch.rand(8, 4, device=device), torch.rand(8, 1, device=device)
net = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)).to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
TRAINING = """\
for _ in range(10):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""
BY_HAND = """\
for _ in range(10):
    loss = nn.functional.mse_loss(net(x), y)
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
"""
PICTURE = """\
x.requires_grad_()
out = net(x).sum()
out.backward()
print(x.grad.abs().max())
"""


def moved(text: str, dtype: Dtype = Dtype.FP16) -> tuple[list[tuple[str, int]], str]:
    result = migrate_text(text, Settings(dtype=dtype))
    return [(each.code, each.line) for each in result.findings], result.after


@pytest.mark.parametrize("behind", [BY_HAND, PICTURE], ids=["by hand", "picture"])
@pytest.mark.parametrize("is_function", [False, True])
def test_behind_the_last_loop_that_steps(behind: str, is_function: bool) -> None:
    body = TRAINING + behind
    text = HEAD + (f"\n\ndef main():\n{indent(body, '    ')}\n\nmain()\n" if is_function else body)
    findings, after = moved(text)
    first, last = (number for number, line in enumerate(text.splitlines(), 1) if ".backward()" in line)
    assert sorted(findings) == [("AMP501", first), ("AMP590", last)]
    assert "autocast" not in after[after.index("scaler.update()") :]


def test_a_loop_by_hand_before_another_training() -> None:
    body = f"{TRAINING}{BY_HAND}{TRAINING}"
    for text in (HEAD + body, f"{HEAD}\n\ndef main():\n{indent(body, '    ')}\n\nmain()\n"):
        findings, after = moved(text)
        assert sorted(code for code, _ in findings) == ["AMP501", "AMP501", "AMP590"]
        assert after.count("scaler.step(") == 2


def test_nothing_is_scaled_in_bfloat16() -> None:
    findings, after = moved(HEAD + TRAINING + BY_HAND, dtype=Dtype.BF16)
    assert {code for code, _ in findings} == {"AMP501"}
    assert after.count("autocast") == 2


SAMPLING = """\


def sample(x):
    x.requires_grad_()
    for _ in range(5):
        net(x).sum().backward()
        x.grad.clamp_(-0.03, 0.03)
        x.data.add_(-0.1 * x.grad)
        x.grad.zero_()
    return x.detach()
"""
BY_AUTOGRAD = """\


def sample(x):
    for _ in range(5):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(net(x).sum(), x)
        x = x - 0.1 * gradient
    return x.detach()
"""
ENERGY = """\


for _ in range(20):
{first}    fake = sample(torch.randn(8, 4, device=device))
    loss = (net(x) ** 2).mean() + (net(fake) ** 2).mean()
{then}    loss.backward()
    optimizer.step()
"""
CLEARS = "    optimizer.zero_grad()\n"


@pytest.mark.parametrize(("sampling", "left"), [(SAMPLING, ["AMP590"]), (BY_AUTOGRAD, [])])
def test_samples_that_follow_the_gradient_of_the_model(sampling: str, left: list[str]) -> None:
    """They are drawn in float32, outside the region, by gradients that are not scaled."""
    findings, after = moved(HEAD + sampling + ENERGY.format(first="", then=CLEARS))
    assert sorted(code for code, _ in findings if code != "AMP504") == ["AMP501", *left]
    assert "\n    fake = sample(torch.randn(8, 4, device=device))\n    with torch.amp.autocast(" in after


def test_their_gradients_must_not_meet_scaled_ones() -> None:
    findings, _ = moved(HEAD + SAMPLING + ENERGY.format(first=CLEARS, then=""))
    assert {code for code, _ in findings} == {"AMP590"}
