"""`E[xy] - E[x] E[y]` of means that are rounded to half precision may come to zero, or below it."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import pytest
from amp_migrate.flow.events import CANCELLED, Act

from .conftest import Told

Tell = Callable[..., Told]
LOOP = """
{defined}

model = nn.Conv2d(3, 3, 3, padding=1).cuda()
window = torch.ones(3, 1, 11, 11, device="cuda") / 121
weight, other = nn.Parameter(torch.rand(8, 4).cuda()), nn.Parameter(torch.rand(8, 4).cuda())
for y in [torch.rand(2, 3, 32, 32, device="cuda")]:
    with torch.amp.autocast("cuda", dtype=torch.float16, enabled={enabled}):
        x = model(y)
{body}
"""
FILTERED = """
def smooth(x):
    return F.conv2d(x, window, groups=3)
"""
POOLS = """
class Pools(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.AvgPool2d(3, 1)
        self.square = nn.AvgPool2d(3, 1)

    def forward(self, x, y):
        mean_x, mean_y = self.mean(x), self.mean(y)
        var = self.square(x**2) - mean_x**2  # cancels
        both = self.square(x * y) - mean_x * mean_y  # cancels
        return var + both
"""
CANCELS = [
    ("", "var = F.conv2d(x * x, window, groups=3) - F.conv2d(x, window, groups=3).pow(2)  # cancels"),
    ("", "var = F.conv2d(x * x, window) - F.conv2d(x, window).square()  # cancels"),
    ("", "var = (x * x).mean(dim=1) - x.mean(dim=1) ** 2  # cancels"),
    (FILTERED, "mean = smooth(x)\nboth = smooth(x * y) - mean * smooth(y)  # cancels"),
    (POOLS, "loss = Pools()(x, y)"),
    (
        "",
        "pieces = F.conv2d(torch.cat((x, y, x * x, x * y)), window, groups=3).split(2)\n"
        "squared = pieces[0] * pieces[0]\nvar = pieces[2].float() - squared  # cancels",
    ),
]
STAYS = [
    # Of the tensor itself, in float32, nothing has been rounded.
    "var = (y * y).mean(dim=1) - y.mean(dim=1) ** 2",
    # Two sums with other weights: what pairs of features give, as in a factorization machine.
    "whole = x.flatten(1)[:, :8].mm(weight) ** 2 - x.flatten(1)[:, :8].mm(weight).mul(2)",
    "pairs = (x[:, 0, 0, :8] ** 2).mm(weight**2) - x[:, 0, 0, :8].mm(weight) ** 2",
    # Of two different means, and of a mean that is not squared.
    "other = F.conv2d(x * x, window, groups=3) - F.conv2d(y, window, groups=3).pow(2)",
    "first = F.conv2d(x * x, window, groups=3) - F.conv2d(x, window, groups=3)",
    # The deviation itself is squared.
    "var = (x - x.mean(dim=1, keepdim=True)).pow(2).mean(dim=1)",
]


def text(body: str, defined: str = "", enabled: bool = True) -> str:
    return LOOP.format(defined=dedent(defined), enabled=enabled, body=indent(body, " " * 8))


def cancelled(answer: Told) -> list[int]:
    """The lines of differences; what else is rounded in them, or before, is of no concern."""
    return sorted({answer.line(each.site) for each in answer.events(Act.RISK) if each.why == CANCELLED})


@pytest.mark.parametrize(("defined", "body"), CANCELS)
def test_a_difference_of_rounded_means(told: Tell, defined: str, body: str) -> None:
    whole = text(body, defined)
    lines = whole.removeprefix("\n").splitlines()
    wanted = [at for at, line in enumerate(lines, 1) if line.endswith("# cancels")]
    assert cancelled(told(whole)) == wanted
    assert cancelled(told(text(body, defined, enabled=False))) == []


@pytest.mark.parametrize("body", STAYS)
def test_a_difference_of_anything_else(told: Tell, body: str) -> None:
    assert cancelled(told(text(body))) == []
