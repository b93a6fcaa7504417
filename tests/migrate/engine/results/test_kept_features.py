"""What a hook keeps of a model that nobody has read is what that computes in its region: float16."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
from torch import nn
{imports}


def alike(x, y):
    with torch.no_grad():
        {flat}
        gram_x = torch.matmul(a, a.t())
        gram_y = torch.matmul(b, b.t())
    return (gram_x * gram_y).sum() / (x * y).sum()


class Kept:
    def __init__(self, model):
        self.found = {{}}
        {register}

    def hook(self, name):
        def hook(model, input, output):
            self.found[name] = output
        return hook


student = torch.load("student.pth", weights_only=False).cuda()
teacher = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
mine, theirs = {mine}, Kept(teacher)
optimizer = torch.optim.Adam(student.parameters())
for _ in range(10):
    x = torch.randn(64, 512).cuda()
    with torch.no_grad():
        teacher(x)
    optimizer.zero_grad()
    loss = student(x).square().mean() + 1 - alike(mine.found["first"], theirs.found["first"])
    loss.backward()
    optimizer.step()
"""
OF_ONE = 'model[0].register_forward_hook(self.hook("first"))'
OF_EACH = """for name, part in model.named_modules():
            part.register_forward_hook(self.hook(name))"""
PLAIN = "a, b = x, y"
FLAT = """a = x.view(x.size(0), -1)
        b = y.view(y.size(0), -1)"""


def result(register: str = OF_ONE, flat: str = FLAT, imports: str = "", mine: str = "Kept(student)") -> str:
    plan = migrate_text(TEXT.format(register=register, flat=flat, imports=imports, mine=mine), Settings())
    assert "scaler.step(optimizer)" in plan.after
    kept = [each.message for each in plan.findings if each.message.startswith("kept in float32")]
    assert len(kept) == 2
    return plan.after


@pytest.mark.parametrize("register", [OF_ONE, OF_EACH])
@pytest.mark.parametrize("flat", [PLAIN, FLAT])
def test_a_product_of_it_with_itself_is_of_float32(register: str, flat: str) -> None:
    after = result(register, flat)
    x, y = ("x", "y") if flat == PLAIN and "a = x" in after else ("a", "b")
    assert f"gram_x = torch.matmul({x}.float(), {x}.float().t())" in after
    assert f"gram_y = torch.matmul({y}.float(), {y}.float().t())" in after


def test_what_is_kept_by_code_that_nobody_has_read_may_be_float16() -> None:
    after = result(imports="from elsewhere import Keeper", mine="Keeper(student)")
    asked = "a.float() if a.is_floating_point() else a"
    assert f"gram_x = torch.matmul({asked}, ({asked}).t())" in after


@pytest.mark.parametrize("size", ["c + 1", "c * c", "torch.mul(c, c)"])
def test_two_operands_that_nobody_knows_do_not_float_for_each_other(size: str) -> None:
    flat = f"c = x.view(x.size(0), -1)\n        a = {size}\n        b = y.view(y.size(0), -1)"
    after = result(flat=flat, imports="from elsewhere import Keeper", mine="Keeper(student)")
    assert "gram_x = torch.matmul(a.float() if a.is_floating_point() else a, " in after
