"""AMP639: what a region made half precision meets float32 weights where autocast is off."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = self.body(x)
        with torch.autocast("cuda", enabled={inner}):
            return {inside}

net, last = Net().cuda(), nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *last.parameters()], lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.{dtype}):
        out = net(x.cuda())
    loss = nn.functional.cross_entropy({outside}, y.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def script(*, inner: str = "False", inside: str = "self.head(h.float())", outside: str = "out", dtype: str) -> str:
    return SCRIPT.format(inner=inner, inside=inside, outside=outside, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"inside": "self.head(h)"}, {"inside": "self.head(h.float())"}),
        ({"inside": "h @ self.head.weight.t()"}, {"inside": "h.float() @ self.head.weight.t()"}),
        ({"inner": "True", "inside": "self.head(h)", "outside": "last(out)"}, {"outside": "last(out.float())"}),
    ],
)
def test_operands_that_autocast_does_not_make_agree_are_told_and_cast(
    wrong: dict[str, str], right: dict[str, str], dtype: str
) -> None:
    plan = migrate_text(script(**wrong, dtype=dtype), Settings(select=("AMP639",)))
    assert [each.code for each in plan.findings] == ["AMP639"]
    assert plan.after == script(**wrong | right, dtype=dtype)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"inner": "True", "inside": "self.head(h)"},
        {"inner": "off", "inside": "self.head(h)"},
        {"outside": "last(out)"},
        {"outside": "out.softmax(-1)", "inner": "True"},
        {"inner": "True", "inside": "self.head(h)", "outside": "other(out)"},
    ],
)
def test_operands_that_agree_or_that_nobody_knows_are_left(parts: dict[str, str]) -> None:
    text = script(**parts, dtype="float16")
    plan = migrate_text(text, Settings(select=("AMP639",)))
    assert (plan.findings, plan.after) == ((), text)


DECORATED = """\
import torch
from torch import nn

class Net(nn.Linear):
    @{by}("cuda", dtype=torch.float16)
    def forward(self, x):
        return super().forward(x)

net, last = Net(8, 2).cuda(), nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD([*net.parameters(), *last.parameters()], lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    out = net(x.cuda())
    loss = nn.functional.cross_entropy({outside}, y.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("by", ["torch.autocast", "torch.amp.autocast"])
def test_features_of_a_forward_that_a_decorator_puts_into_a_region_are_known_to_be_low(by: str) -> None:
    plan = migrate_text(DECORATED.format(by=by, outside="last(out)"), Settings(select=("AMP639",)))
    assert [each.code for each in plan.findings] == ["AMP639"]
    assert plan.after == DECORATED.format(by=by, outside="last(out.float())")


LOSS = """\
import torch
import torch.nn.functional as F

net = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        p = torch.sigmoid(net(x.cuda()))
        with torch.autocast("cuda", enabled={inner}):
            loss = {loss}
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("loss", "torch", "is_told"),
    [
        ("F.binary_cross_entropy({}, y.cuda())", (2, 14), True),
        ("torch.nn.BCELoss()({}, torch.ones(4, 2).cuda())", (2, 6), True),
        ("F.mse_loss({}, y.cuda())", (2, 6), True),
        ("F.mse_loss({}, y.cuda())", (2, 14), False),
        ("F.huber_loss({}, y.float())", (2, 14), True),
        ("F.l1_loss({}, y.float())", (2, 6), False),  # promotes
        ("F.mse_loss({}.detach(), y.float()) + p.sum()", (2, 6), False),
        ("F.binary_cross_entropy({}, torch.ones_like(p))", (2, 6), False),
        ("F.binary_cross_entropy({}, targets(p))", (2, 6), False),  # as it was given
        ("F.binary_cross_entropy({}, y.to(p))", (2, 6), False),
        ("F.binary_cross_entropy({}, y.to(p.dtype))", (2, 6), False),
        ("F.binary_cross_entropy({}, y.to(x.dtype))", (2, 6), False),
        ("F.binary_cross_entropy({}, y.to(weight_dtype))", (2, 6), False),
    ],
)
def test_losses_that_refuse_targets_of_another_precision(loss: str, torch: tuple[int, int], is_told: bool) -> None:
    before, after = (LOSS.format(inner="False", loss=loss.format(each)) for each in ("p", "p.float()"))
    plan = migrate_text(before, Settings(target_torch=torch, select=("AMP639",)))
    assert [each.code for each in plan.findings] == ["AMP639"] * is_told
    assert plan.after == (after if is_told else before)
    in_region = LOSS.format(inner="True", loss=loss.format("p"))
    assert migrate_text(in_region, Settings(select=("AMP639",))).findings == ()


def test_operands_that_autocast_leaves_as_they_are_are_told_so() -> None:
    text = LOSS.format(inner="True", loss="torch.lerp(torch.zeros(4, 2).cuda(), p, 0.5).mean()")
    (found,) = migrate_text(text, Settings(select=("AMP639",))).findings
    assert found.message.endswith("and autocast leaves them as they are: it raises")
