"""Gradients that are read for their direction alone need not be unscaled: adversarial training."""

from __future__ import annotations

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from torch import nn

class Attack:
    def __init__(self, model):
        self.model = model
        self.kept = {{}}

    def attack(self, epsilon=1.0):
        for name, param in self.model.named_parameters():
            if param.requires_grad and param.grad is not None:
                {body}

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
attack = Attack(model)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    attack.attack()
    other = nn.functional.mse_loss(model(x), y)
    other.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
INDENT = "\n" + " " * 16


def after(*lines: str) -> tuple[str, list[str]]:
    plan = migrate_text(SCRIPT.format(body=INDENT.join(lines)), Settings())
    return plan.after, [each.message for each in plan.findings if each.code == "AMP590"]


@pytest.mark.parametrize(
    "lines",
    [
        (
            "norm = torch.norm(param.grad)",
            "if norm != 0 and not torch.isnan(norm):",
            "    param.data.add_(epsilon * param.grad / norm)",
        ),
        ("norm = param.grad.norm()", "param.data.add_(param.grad / (norm + 1e-12) * epsilon)"),
        ("param.data.add_(epsilon * param.grad / param.grad.norm())",),
        ("self.kept[name] = param.grad.clone()",),
        ("param.grad = self.kept[name]",),
    ],
)
def test_a_direction_is_the_same_in_any_scale(lines: tuple[str, ...]) -> None:
    text, left = after(*lines)
    assert not left
    assert "scaler.scale(loss).backward()" in text
    assert "scaler.scale(other).backward()" in text
    assert "unscale_" not in text


@pytest.mark.parametrize(
    "lines",
    [
        ("param.data.add_(epsilon * param.grad)",),
        ("norm = torch.norm(param.grad)", "if norm > 1.0:", "    param.data.add_(epsilon * param.grad / norm)"),
        ("norm = torch.norm(param.grad)", "param.data.add_(epsilon * param.grad / norm)", "print(norm)"),
        ("norm = torch.norm(param.grad)", "param.data.add_(epsilon / norm)"),
        ("norm = torch.norm(param)", "param.data.add_(epsilon * param.grad / norm)"),
        ("param.data.add_(param.grad / (param.grad.norm() + 0.1))",),
        ("self.kept[name] = param.grad.clone() + param",),
        ("if param.grad > 1:", "    pass"),
    ],
)
def test_a_magnitude_is_not(lines: tuple[str, ...]) -> None:
    text, left = after(*lines)
    assert len(left) == text.count(".backward()")
    assert all(each.startswith("left as it was: a gradient is used while the loss scale is in it: ") for each in left)
    assert "scaler" not in text


def test_a_direction_is_exact_in_scales_that_are_powers_of_two() -> None:
    gradient = torch.randn(64, generator=torch.Generator().manual_seed(0))
    scaled = gradient * 2.0**16
    assert torch.equal(scaled / scaled.norm(), gradient / gradient.norm())
