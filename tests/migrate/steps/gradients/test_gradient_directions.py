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


APART = """\
import torch
from torch import nn
{imported}
def attack(model, x, y, opt=None):
    delta = torch.zeros_like(x, requires_grad=True)
    kept = []
    for _ in range(3):
        loss = nn.functional.mse_loss(model(x + delta), y)
        {backward}
        {body}
        delta.grad.zero_()
    return delta.detach()

def main():
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {prepared}
    for x, y in loader:
        delta = attack(model, x, y, optimizer)
        loss = nn.functional.mse_loss(model(x + delta), y)
        optimizer.zero_grad()
        {trained}
        optimizer.step()
    {evaluated}

main()
"""
APEX_LOSS = """if opt is not None:
            with amp.scale_loss(loss, opt) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()"""
APEX_STEP = "with amp.scale_loss(loss, optimizer) as scaled_loss:\n            scaled_loss.backward()"


def of_apex(*lines: str) -> str:
    text = APART.format(
        imported="from apex import amp\n",
        backward=APEX_LOSS,
        body=("\n" + " " * 8).join(lines),
        prepared='model, optimizer = amp.initialize(model, optimizer, opt_level="O1")',
        trained=APEX_STEP,
        evaluated="",
    )
    return migrate_text(text, Settings()).after


@pytest.mark.parametrize(
    "lines",
    [
        ("delta.data = delta + 0.1 * torch.sign(delta.grad.detach())",),
        ("grad = delta.grad.detach()", "delta.data = delta + 0.1 * grad / grad.norm()"),
        ("grad = delta.grad.view(8, -1)", "delta.data = delta + grad / torch.norm(grad, dim=1, keepdim=True)"),
        ("up = delta.grad > 0", "delta.data = delta + 0.1 * up.float()"),
        ("_, most = delta.grad.topk(1, 1)", "delta.data = delta + torch.zeros_like(delta).scatter_(1, most, 1.0)"),
    ],
)
def test_a_function_that_goes_backward_for_its_own_tensor_reads_its_direction(lines: tuple[str, ...]) -> None:
    text = of_apex(*lines)
    assert "apex" not in text
    assert "amp_shim" not in text
    assert "unscale_" not in text
    assert "get_scale" not in text


@pytest.mark.parametrize(
    "lines",
    [
        ("delta.data = delta + 0.1 * delta.grad",),
        ("with torch.no_grad():", "    delta[:] = delta.grad"),
        ("step = torch.zeros_like(x)", "step[0] = delta.grad[0]", "delta.data = delta + step"),
        ("delta.data = delta + torch.softmax(delta.grad, 1)",),
        ("delta.data = delta + torch.exp(delta.grad)",),
        ("delta.data = delta + torch.sign(torch.round(delta.grad))",),
        ("if delta.grad.abs().max() > 0.1:", "    delta.data = delta + torch.sign(delta.grad)"),
        ("delta.data = delta + torch.sign(elsewhere.blurred(delta.grad))",),
    ],
)
def test_what_another_scale_changes_in_it_is_not_native(lines: tuple[str, ...]) -> None:
    assert "from amp_shim import amp" in of_apex(*lines)


def test_what_grows_with_it_is_divided() -> None:
    assert "delta.data = (0.1 * delta.grad) / scaler.get_scale()" in of_apex("delta.data = 0.1 * delta.grad")


@pytest.mark.parametrize("evaluated", ["print(attack(model, x, y))", "print(attack(nn.Linear(2, 2).cuda(), x, y))"])
@pytest.mark.parametrize("step", ["0.1 * torch.sign(delta.grad)", "0.1 * delta.grad"])
def test_an_attack_with_gradients_of_its_own_stays_as_it_is(step: str, evaluated: str) -> None:
    text = APART.format(
        imported="",
        backward="loss.backward()",
        body=f"delta.data = delta + {step}",
        prepared="",
        trained="loss.backward()",
        evaluated=evaluated,
    )
    after = migrate_text(text.replace("x, y, optimizer)", "x, y)"), Settings()).after
    assert after.count("    loss.backward()") == 1
    assert after.count("scaler.scale(loss).backward()") == 1
    assert "unscale_" not in after


def test_gradients_of_the_training_that_are_measured_where_it_may_not_step_are_not_left() -> None:
    text = APART.format(
        imported="",
        backward="loss.backward()",
        body="delta.data = delta + torch.sign(delta.grad)",
        prepared="",
        trained="loss.backward()",
        evaluated="print(sum(p.grad.norm() for p in model.parameters()))",
    )
    plan = migrate_text(
        text.replace("        optimizer.step()\n", "        if x.sum() > 0:\n            optimizer.step()\n"),
        Settings(),
    )
    assert "scaler" not in plan.after
