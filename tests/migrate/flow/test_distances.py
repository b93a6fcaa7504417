"""`x² - 2xy + y²` of a product that is rounded to half precision is off by as much as near neighbours differ."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent

import pytest
from amp_migrate.flow.events import OF_DISTANCE, Act

from .conftest import Told

Tell = Callable[..., Told]
LOOP = """
{defined}

layer, head = nn.Linear(3, 3).cuda(), nn.Linear(3, 3).cuda()
codes = nn.Parameter(torch.rand(3, 64, device="cuda"))
for data, other in loader:
    z = other.cuda()
    with torch.amp.autocast("cuda", dtype=torch.float16, enabled={enabled}):
        x, y = layer(data.cuda()), head(data.cuda())
{body}
"""
IN_PLACE = """
def distances(a, b):
    found = -2 * torch.matmul(a, b.permute(0, 2, 1))  # rounded
    found += torch.sum(a**2, -1).view(a.shape[0], a.shape[1], 1)
    found += torch.sum(b**2, -1).view(b.shape[0], 1, b.shape[1])
    return found
"""
HELPERS = """
def lengths(a):
    return (a * a).sum(-1, keepdim=True)


def products(a, b):
    return a @ b.mT  # rounded
"""
NEAREST = """
class Nearest(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(64, 3)

    def forward(self, x):
        codes = self.codes.weight
        near = (
            torch.sum(x**2, dim=1, keepdim=True)
            + torch.sum(codes**2, dim=1)
            - 2 * torch.matmul(x, codes.t())  # rounded
        )
        return near.argmin(dim=1)
"""
ROUNDED = [
    (IN_PLACE, "near = distances(x, y)"),
    (IN_PLACE, "near = distances(z, y)"),
    (IN_PLACE, "near = distances(z, z[:, :3])"),
    (HELPERS, "near = lengths(x) + lengths(y).mT - 2 * products(x, y)"),
    (NEAREST, "near = Nearest().cuda()(x)"),
    ("", "near = x.pow(2).sum(1, keepdim=True) - 2 * x @ codes + codes.pow(2).sum(0)  # rounded"),
    ("", "near = (codes**2).sum(0) - 2 * x.mm(codes)  # rounded"),  # what is the same for all has been left out
    ("", "near = x.norm(dim=-1, keepdim=True) ** 2 + y.norm(dim=-1) ** 2 + torch.bmm(-2 * x, y.mT)  # rounded"),
    ("", "near = torch.baddbmm(x.square().sum(-1, keepdim=True), x, y.mT, alpha=-2)  # rounded"),
    ("", "near = torch.einsum('nd,nd->n', x, x)[:, None] - torch.einsum('nd,md->nm', x, y).mul(2)  # rounded"),
    (
        "",
        "xx, yy, xy = x @ x.t(), y @ y.t(), x @ y.t()  # rounded\n"
        "rx, ry = xx.diag().unsqueeze(0).expand_as(xx), yy.diag().unsqueeze(0).expand_as(yy)\n"
        "kernel = torch.exp(-0.5 * (rx.t() + ry - 2.0 * xy))",
    ),
    ("", "dot = x @ x.t()  # rounded\nown = dot.diag()\nnear = own[None] - 2 * dot + own[:, None]"),
    ("", "inner = x @ y.mT / 0.5  # rounded\nfar = -(x**2).sum(-1, keepdim=True) + inner - (y**2).sum(-1)"),
]
STAYS = [
    # In float32, as it was.
    "near = torch.cdist(x, y)",
    "near = (x[:, None] - y[None]).pow(2).sum(-1)",
    # The sum of two: nothing cancels.
    "length = (x**2).sum(-1, keepdim=True) + 2 * x @ y.mT + (y**2).sum(-1)",
    # Squares of something else, or of no vector.
    "score = x @ y.mT - (z**2).sum(-1)",
    "score = x @ codes - x.mm(codes) ** 2",
    "score = F.linear(x, codes[:, :3]) - x**2",
    "pairs = (x @ codes).pow(2) - (x**2) @ (codes**2)",
    # Lengths that are added to no product of theirs.
    "score = x @ y.mT + (x**2).sum()",
    "loss = (x @ y.mT).mean() - 0.1 * (x**2).sum()",
    # A product of a matrix with itself, without its diagonal; or with it, and nothing cancels.
    "gram = x @ x.t()\nscore = gram - 0.5 * gram.t()",
    "gram = x @ x.t()\nscore = gram + gram.diag()",
    "gram = x @ x.t()\nscore = gram.diag() - 0.5 * gram.diag()",
    # Two pieces of one tensor.
    "first, second = x.chunk(2)\nthird = y.chunk(2)[0]\nscore = (third**2).sum(-1) - first @ second.mT",
]


def text(body: str, defined: str = "", enabled: bool = True) -> str:
    return LOOP.format(defined=dedent(defined), enabled=enabled, body=indent(body, " " * 8))


def rounded(told: Told) -> list[int]:
    return sorted({told.line(each.site) for each in told.events(Act.RISK) if each.why == OF_DISTANCE})


@pytest.mark.parametrize(("defined", "body"), ROUNDED)
def test_a_product_that_is_rounded_before_squares_are_added(told: Tell, defined: str, body: str) -> None:
    whole = text(body, defined)
    lines = whole.removeprefix("\n").splitlines()
    wanted = [at for at, line in enumerate(lines, 1) if "# rounded" in line]
    assert rounded(told(whole)) == wanted
    assert rounded(told(text(body, defined, enabled=False))) == []


@pytest.mark.parametrize("body", STAYS)
def test_any_other_sum(told: Tell, body: str) -> None:
    assert rounded(told(text(body))) == []
