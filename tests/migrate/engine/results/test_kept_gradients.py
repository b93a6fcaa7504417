"""Gradients that a hook keeps are scaled: a loss that is made of them is another one."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from torch import nn
from torchvision.models import resnet18


class Kept:
    def __init__(self, layer):
        self.gradient = None
        self.several = []
        layer.{register}

    def of_module(self, module, inputs, outputs):
        self.gradient = outputs[0]

    def of_tensor(self, gradient):
        self.gradient = gradient
        self.several.append(gradient)

    def before(self, module, outputs):
        self.several.append(outputs[0].detach())

    def watch(self, module, inputs, output):
        output.register_hook(self.of_tensor)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean((2, 3)))


def main(loader):
    model = {model}.cuda()
    kept = Kept(model.conv)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weight = torch.ones(1).cuda()
    for x, y in loader:
        out = model(x.cuda())
        loss = nn.functional.cross_entropy(out, y.cuda())
        if kept.gradient is not None or kept.several:
            loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {after}


main(torch.load("data.pt"))
"""
OF_MODULE = "register_full_backward_hook(self.of_module)"
PRE = "register_full_backward_pre_hook(self.before)"
OF_TENSOR = "weight.register_hook(self.of_tensor)"
OF_OUTPUT = "register_forward_hook(self.watch)"


def why(register: str, loss: str, after: str = "pass", model: str = "Net()") -> list[str]:
    """What is said beside that the step has moved; nothing else where it has."""
    text = SCRIPT.format(register=register, loss=loss, after=after, model=model)
    plan = migrate_text(text, Settings())
    assert ("scaler.scale(loss)" in plan.after) == any(each.code == "AMP501" for each in plan.findings)
    return [each.message for each in plan.findings if each.code in ("AMP504", "AMP590")]


@pytest.mark.parametrize(
    ("register", "loss"),
    [
        (OF_MODULE, "loss + 0.1 * kept.gradient.abs().mean() * out.mean()"),
        (OF_MODULE, "loss * kept.gradient.abs().mean()"),
        ("register_backward_hook(self.of_module)", "(out * kept.gradient.mean((2, 3)).sum()).mean()"),
        (PRE, "loss * kept.several[-1].abs().mean()"),
        (OF_TENSOR, "loss * kept.gradient.norm()"),
        (OF_TENSOR, "loss + kept.several.pop().softmax(0).sum() * out.mean()"),
        (OF_OUTPUT, "loss * kept.gradient.abs().mean()"),
    ],
)
def test_a_step_stays_whose_loss_is_made_of_a_gradient_that_a_hook_keeps(register: str, loss: str) -> None:
    (said,) = why(register, loss)
    assert "a gradient is used while the loss scale is in it" in said


def test_so_does_one_that_keeps_it_for_the_weight_of_the_next_loss() -> None:
    (said,) = why(OF_MODULE, "loss * weight.mean()", "weight = kept.gradient.abs().mean()")
    assert "a loss is made of it" in said


def test_nobody_has_to_see_the_module_that_the_hook_is_of() -> None:
    (said,) = why(OF_MODULE, "loss * kept.gradient.abs().mean()", model="resnet18()")
    assert "a loss is made of it" in said


@pytest.mark.parametrize(
    ("register", "loss", "after"),
    [
        (OF_MODULE, "loss + 1.0", "pass"),
        (OF_MODULE, "loss + 1.0", "kept.gradient = None"),
        (OF_MODULE, "loss * (kept.gradient / kept.gradient.norm()).abs().mean()", "pass"),
        (OF_TENSOR, "loss * nn.functional.normalize(kept.gradient, dim=0).abs().mean()", "pass"),
        (OF_TENSOR, "loss * kept.gradient.sign().mean()", "pass"),
        (PRE, "loss * len(kept.several)", "kept.several.clear()"),
        (OF_OUTPUT, "loss + out.mean()", "kept.gradient.zero_()"),
        ("register_forward_hook(lambda module, inputs, output: None)", "loss + out.mean()", "pass"),
        ("weight.register_hook(lambda gradient: gradient * 0.5)", "loss + out.mean()", "pass"),
        ("register_full_backward_hook(lambda module, inputs, outputs: None)", "loss * weight.mean()", "pass"),
    ],
)
def test_a_step_moves_whose_loss_no_scale_comes_into(register: str, loss: str, after: str) -> None:
    assert why(register, loss, after) == []
