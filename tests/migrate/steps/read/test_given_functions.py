"""A function that computes the loss is handed on by a name: the forward is in each of those that it may be."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import sys

import torch
from torch import nn
{imports}
model = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def plain(model, x, y):
    return nn.functional.mse_loss(model(x), y)


def both(model, x, y):
    return plain(model, x, y) + 0.3 * plain(model, x, x[:, :4])


def given(model, x, y):
    return (x - x).mean()


{chosen}


def get_loss(model, x, y, function{default}):
    return function(model, x, y)


for step in range(10):
    x, y = torch.rand(4, 8).cuda(), torch.rand(4, 4).cuda()
    loss = get_loss(model, x, y{passed})
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRAINS = """\
def trains(model, x, y):
    plain(model, x, y).backward()
    return plain(model, x, y)


"""
CHOSEN = """\
loss_function = None
if sys.argv[1] == "other":
    loss_function = {}
else:
    loss_function = plain
"""


def codes(chosen: str, passed: str = ", loss_function", default: str = "", imports: str = "") -> list[str]:
    text = SCRIPT.format(imports=imports, chosen=chosen, passed=passed, default=default)
    return [each.code for each in migrate_text(text, Settings()).findings]


@pytest.mark.parametrize(
    ("chosen", "passed", "default"),
    [
        (CHOSEN.format("both"), ", loss_function", ""),
        (CHOSEN.format("both"), ", function=loss_function", "=None"),
        ("loss_function = other = both", ", other", ""),
        ("", ", plain", ""),
        ("", "", "=plain"),
    ],
)
def test_each_of_them_computes_the_loss(chosen: str, passed: str, default: str) -> None:
    assert codes(chosen, passed, default) == ["AMP501"]


@pytest.mark.parametrize(
    ("chosen", "imports"),
    [
        (CHOSEN.format("given"), ""),
        (TRAINS + CHOSEN.format("trains"), ""),
        (CHOSEN.format("losses.focal"), "import losses\n"),
        (CHOSEN.format("make()"), "from losses import make\n"),
    ],
)
def test_one_of_them_may_be_something_else(chosen: str, imports: str) -> None:
    assert "AMP501" not in codes(chosen, imports=imports)


TWO_CALLERS = """\
import torch
from torch import nn

first, second = nn.Linear(8, 4).cuda(), nn.Linear(8, 4).cuda()


def run(optimizer, compute):
    x, y = torch.rand(4, 8).cuda(), torch.rand(4, 4).cuda()
    loss = compute(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def distil(x, y):
    with torch.no_grad():
        wanted = first(x)
    return nn.functional.mse_loss(second(x), wanted)


run(torch.optim.SGD(first.parameters(), lr=0.1), {given})
run(torch.optim.SGD(second.parameters(), lr=0.1), distil)
"""


def test_one_of_them_is_a_lambda() -> None:
    """What the functions compute without gradients runs in the region round their call, and has none of its own."""
    result = migrate_text(TWO_CALLERS.format(given="lambda x, y: nn.functional.mse_loss(first(x), y)"), Settings())
    assert [each.code for each in result.findings] == ["AMP501"]
    assert result.after.count("torch.amp.autocast(") == 1


@pytest.mark.parametrize(
    "given",
    [
        "lambda x, y: (x - x).mean()",
        "lambda x, y: nn.functional.binary_cross_entropy(first(x).sigmoid(), y)",
        "lambda x, y: nn.functional.mse_loss(first(x), y).backward()",
    ],
)
def test_one_of_them_is_a_lambda_that_no_region_can_hold(given: str) -> None:
    assert "AMP501" not in [each.code for each in migrate_text(TWO_CALLERS.format(given=given), Settings()).findings]
