"""A product that is added in place to something more precise gets float32: autocast leaves those alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]

SCRIPT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 8)

    def forward(self, x):
        features = self.body(x)
        return (features.sum(1), features) if self.training else features


def distances(a, b):
    found = a.pow(2).sum(1, keepdim=True) + b.pow(2).sum(1, keepdim=True).t()
    found.addmm_({given}, beta=1, alpha=-2)
    return found.clamp(min=1e-12).sqrt()


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    scores, features = net(x.cuda())
    loss = nn.functional.mse_loss(scores, y.cuda()) + distances(features, features).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    gallery = torch.cat([net(x.cuda()).data.cpu() for x, _ in loader])
    print(distances(gallery, gallery).numpy())
"""


def test_the_operands_of_a_sum_in_place_are_float32(migrate: Check) -> None:
    plan = migrate(SCRIPT.format(given="a, b.t()"))
    assert "+ distances(features.float(), features.float()).mean()\n" in plan.after


def test_what_gives_a_pair_in_training_gives_a_tensor_where_one_is_asked_for(migrate: Check) -> None:
    assert "distances(gallery.float(), gallery.float()).numpy()" in migrate(SCRIPT.format(given="a, b.t()")).after


def test_operands_that_are_float32_already_are_left_alone(migrate: Check) -> None:
    plan = migrate(SCRIPT.format(given="a.float(), b.t().float()"))
    assert "+ distances(features, features).mean()\n" in plan.after


def test_what_may_be_anything_gets_the_precision_of_what_it_is_added_to(migrate: Check) -> None:
    text = SCRIPT.replace("features = self.body(x)", "features = self.body(x) if x.ndim == 2 else load(x)")
    plan = migrate(text.format(given="a, b.t()"))
    assert "    found.addmm_(a.to(found.dtype), b.t().to(found.dtype), beta=1, alpha=-2)\n" in plan.after


@pytest.mark.parametrize("is_float", [True, False])
def test_autocast_leaves_what_changes_in_place_alone(is_float: bool) -> None:
    found, a = torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.float32 if is_float else torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        if is_float:
            assert found.addmm_(a, a).dtype is torch.float32
        else:
            with pytest.raises(RuntimeError):
                found.addmm_(a, a)
