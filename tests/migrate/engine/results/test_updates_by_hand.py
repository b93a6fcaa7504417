"""A training that changes its parameters by hand has no scaler to divide their gradients, be one beside it."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

BY_OPTIMIZER = """\
model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
BY_HAND = """\
model = nn.Linear(3, 3).cuda()
speeds = [torch.zeros_like(p) for p in model.parameters()]
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for v, p in zip(speeds, model.parameters()):
            {changed}
"""
CHANGED = [
    "p -= 0.1 * p.grad",
    "p.data -= 0.1 * p.grad.data",
    "p.add_(p.grad, alpha=-0.1)",
    "p.copy_(p - 0.1 * p.grad)",
    "v.mul_(0.9).add_(p.grad); p -= 0.1 * v",
]


def _left(*parts: str) -> tuple[str, list[str]]:
    plan = migrate_text("\n".join(("import torch\nfrom torch import nn\n", *parts)), Settings())
    return plan.after, [each.message for each in plan.findings if each.kind is Kind.LEFT]


@pytest.mark.parametrize("changed", CHANGED)
def test_a_training_by_hand_stays_before_one_with_an_optimizer(changed: str) -> None:
    by_hand = BY_HAND.format(changed=changed)
    after, (left,) = _left(by_hand, BY_OPTIMIZER)
    assert by_hand in after
    assert "scaler.step(optimizer)" in after
    assert "a gradient is used while the loss scale is in it: added to " in left


@pytest.mark.parametrize("changed", CHANGED)
def test_a_training_by_hand_stays_behind_one_with_an_optimizer(changed: str) -> None:
    by_hand = BY_HAND.format(changed=changed)
    after, left = _left(BY_OPTIMIZER, by_hand)
    assert by_hand in after
    assert left
    text = "import torch\nfrom torch import nn\n\n" + BY_OPTIMIZER + by_hand
    assert migrate_text(text, Settings(Dtype.BF16)).after.count("autocast") == 2
