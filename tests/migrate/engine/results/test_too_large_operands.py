"""A product of matrices stays float32 whose operands have numbers that are infinite in float16, and NaN times zero."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.events import OF_STEEP, OF_TOO_LARGE
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn


class Pointer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x, mask):
        scores = self.a(x) @ self.b(x).transpose(1, 2)
        {masked}
        words = {product}
        return words.mean()


model = Pointer().cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, mask in torch.load("batches.pt"):
    loss = model(x.cuda(), mask.cuda().float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ISLAND = '        with torch.amp.autocast(device_type="cuda", enabled=False):\n            words = '
MASKED = "scores = scores * mask + (1 - mask) * -1e30"
PRODUCTS = ["scores @ x", "torch.bmm(scores, x)", 'torch.einsum("bts,bsv->btv", scores, x)']


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_of_masked_scores(product: str) -> None:
    plan = migrate_text(TEXT.format(masked=MASKED, product=product), Settings())
    assert ISLAND in plan.after
    assert "scaler.step(optimizer)" in plan.after
    assert any(OF_TOO_LARGE in each.message for each in plan.findings)


@pytest.mark.parametrize(
    "masked",
    [
        "scores = scores.float().masked_fill(mask == 0, -1e30)",
        "scores = scores.float(); scores.masked_fill_(mask == 0, -1e30)",
        "scores = scores.float(); scores[mask == 0] = -1e30",
        'scores = torch.where(mask == 0, torch.tensor(-1e30, device="cuda"), scores.float())',
        'scores = scores * mask + torch.full((4, 4), -1e30, device="cuda") * (1 - mask)',
        "scores = scores * mask + torch.full_like(mask, -1e30) * (1 - mask)",
    ],
)
def test_ways_of_such_a_number_into_a_product(masked: str) -> None:
    plan = migrate_text(TEXT.format(masked=masked, product="scores @ x"), Settings())
    assert ISLAND in plan.after


@pytest.mark.parametrize(
    ("masked", "product"),
    [
        (MASKED, "scores.softmax(-1) @ x"),
        (MASKED, "torch.sigmoid(scores) @ x"),
        ("x = self.b(x)", "nn.functional.scaled_dot_product_attention(scores, x, x, (1 - mask) * -1e30)"),
        ("scores = scores * mask + (1 - mask) * -1e4", "scores @ x"),
        ('scores = scores * mask + (1 - mask) * float("-inf")', "scores @ x"),
        # An integer that a list has beside floating numbers: a product with it would raise.
        ("far = torch.zeros(4, dtype=torch.long) + 100000; held = [x]; held.extend([far, scores])", "held[2] @ x"),
    ],
)
def test_what_float16_has_or_a_product_does_not_get(masked: str, product: str) -> None:
    plan = migrate_text(TEXT.format(masked=masked, product=product), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert "enabled=False" not in plan.after
    assert not any(OF_TOO_LARGE in each.message for each in plan.findings)


def test_a_layer_is_told() -> None:
    plan = migrate_text(TEXT.format(masked=MASKED, product="self.a(scores)"), Settings())
    told = next(each for each in plan.findings if OF_TOO_LARGE in each.message)
    assert "let its inputs be float32" in told.hint
    assert "scaler.step(optimizer)" in plan.after


def test_bfloat16_has_these_numbers() -> None:
    plan = migrate_text(TEXT.format(masked=MASKED, product="scores @ x"), Settings(dtype=Dtype.BF16))
    assert "enabled=False" not in plan.after
    assert not any(OF_TOO_LARGE in each.message for each in plan.findings)


INVERSE = "inverse = torch.diag_embed(1 / (self.b(x).relu() + 1e-5))"


@pytest.mark.parametrize(
    "masked",
    [
        INVERSE,
        "inverse = (self.b(x).relu() + 1e-5).reciprocal()",
        "inverse = 1.0 / (x.relu() + 1e-6)",
        "inverse = torch.stack([2 / (x[:, 0].square() + 1e-8)] * 4, 1)",
    ],
)
def test_a_product_with_the_inverse_of_what_is_hardly_kept_from_zero(masked: str) -> None:
    plan = migrate_text(TEXT.format(masked=masked, product="scores @ inverse"), Settings())
    assert ISLAND in plan.after
    assert any(OF_STEEP in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("masked", "product"),
    [
        (INVERSE.replace("1e-5", "1e-3"), "scores @ inverse"),  # 1000 is float16's
        (INVERSE, "scores + inverse.sum()"),
        ("inverse = x / (x.std() + 1e-5)", "scores @ inverse"),  # what is divided goes to zero, too
        ("inverse = 1 / (x.relu() + 1e-5).sqrt()", "scores @ inverse"),
    ],
)
def test_other_inverses_are_float16s(masked: str, product: str) -> None:
    plan = migrate_text(TEXT.format(masked=masked, product=product), Settings())
    assert not any(OF_STEEP in each.message for each in plan.findings)
    of_bfloat16 = migrate_text(TEXT.format(masked=INVERSE, product="scores @ inverse"), Settings(Dtype.BF16))
    assert not any(OF_STEEP in each.message for each in of_bfloat16.findings)


NEXT = """\
import torch
from torch import nn

policy, target = nn.Linear(16, 8).cuda(), nn.Linear(16, 8).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for x, after, reward, done, allowed in torch.load("batches.pt"):
    with torch.no_grad():
        best = torch.where(allowed.cuda(), target(after.cuda()), {number}).max(1)[0]
        wanted = reward.cuda() + 0.9 * best * (1 - done.cuda())
    loss = nn.functional.mse_loss(policy(x.cuda()).max(1)[0], wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("number", ['torch.tensor(-1e9, device="cuda")', "torch.tensor(-1e9).cuda()", "-1e9"])
def test_a_choice_between_scores_and_one_such_number_is_float32(number: str) -> None:
    """A tensor without dimensions takes the dtype of what it meets: minus infinity, which is NaN times zero."""
    plan = migrate_text(NEXT.format(number=number), Settings())
    assert f"torch.where(allowed.cuda(), target(after.cuda()).float(), {number})" in plan.after
    assert "scaler.step(optimizer)" in plan.after


@pytest.mark.parametrize("number", ["torch.tensor(-1e4).cuda()", 'torch.full((4, 8), -1e9, device="cuda")'])
def test_a_choice_that_float16_holds_or_that_is_float32_anyway(number: str) -> None:
    assert (
        f"torch.where(allowed.cuda(), target(after.cuda()), {number})"
        in migrate_text(NEXT.format(number=number), Settings()).after
    )


AGENT = """\
import random
import numpy as np
import torch
from torch import nn


class Patient:
    def reset(self):
        self.state = np.array([{start}, 11945.0, 5.0])
        return self.state

    def step(self, action):
        self.state = np.clip(self.state * (1.0 + 0.01 * action), 0.0, 1e6)
        return self.state, -1e5, False


env = Patient()
net = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2)).cuda()
optimizer = torch.optim.Adam(net.parameters())
memory = []
state = env.reset()
for step in range(2000):
    action = random.randrange(2)
    following, reward, done = env.step(action)
    memory.append(({kept}, action, reward, following))
    state = following
    if len(memory) > 64:
        s, a, r, n = [torch.Tensor(np.array(each)).cuda() for each in zip(*random.sample(memory, 64))]
        value = net(s).gather(1, a.long().unsqueeze(1)).squeeze(1)
        loss = nn.functional.mse_loss(value, r)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("start", "kept", "is_told"),
    [
        ("163573.0", "state", True),
        ("163573.0", "state.astype(np.float32)", True),
        ("163573.0", "np.stack([state, state])", True),
        ("163573.0", "state / 1e6", False),
        ("163573.0", "np.log(state)", False),
        ("163573.0", "state.mean()", False),
        ("16357.0", "state", False),
        ("np.inf", "state", False),
    ],
)
def test_a_state_that_the_program_makes_of_such_numbers(start: str, kept: str, is_told: bool) -> None:
    plan = migrate_text(AGENT.format(start=start, kept=kept), Settings())
    assert "scaler.step(optimizer)" in plan.after
    assert any(OF_TOO_LARGE in each.message for each in plan.findings) is is_told
