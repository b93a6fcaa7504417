"""A sigmoid sees float32 where a loss reads its result, wherever it stands: a cast behind it comes too late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest
import torch
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Settings

MODEL = """\
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)
        self.squash = nn.Sigmoid()

    def forward(self, x):
        return self.squash(self.head(x))
"""
TRAIN = """\
import torch
from model import Critic

critic = Critic().cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for x, y in loader:
    loss = torch.nn.functional.binary_cross_entropy(critic(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
EITHER = """\
import torch

model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    out = model(x.cuda())
    if args.squash:
        out = torch.sigmoid(out)
    loss = torch.nn.functional.binary_cross_entropy(out, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_sigmoid_of_a_model_in_another_file_is_told_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    outcome = migrate([tmp_path], Settings())
    plans = {each.source.path.name: each for each in outcome.plans}
    assert "return self.squash(self.head(x).float())" in plans["model.py"].after
    assert [(each.code, each.line) for each in plans["model.py"].findings] == [("AMP504", 11)]
    assert [each.code for each in plans["train.py"].findings] == ["AMP501"]


CHOSEN = """\
class Same(nn.Module):
    def __init__(self):
        super().__init__()
        self.squash = nn.Sigmoid()

    def forward(self, x):
        return self.squash(x[:, :1])


critic = (Same() if small else Critic()).cuda()
optimizer = torch.optim.SGD([*critic.parameters()], lr=0.1)
"""


def test_a_sigmoid_of_data_beside_others_needs_no_cast() -> None:
    """Nothing has rounded what it gets: it was told for that."""
    made = TRAIN.partition("critic = ")[2].partition("for x")[0]
    text = f"import torch\n{MODEL}\n\n{TRAIN.partition('import Critic')[2]}".replace(f"critic = {made}", CHOSEN)
    text = text.replace("for x, y in loader:", "for x, y in torch.rand(8, 2, 16, 4):")
    plan = migrate_text(text, Settings())
    assert "return self.squash(self.head(x).float())" in plan.after
    assert "return self.squash(x[:, :1])" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_a_sigmoid_on_one_of_the_ways_to_a_loss_sees_float32() -> None:
    assert "out = torch.sigmoid(out.float())" in migrate_text(EITHER, Settings()).after


def test_a_cast_behind_a_sigmoid_comes_too_late() -> None:
    logit = torch.tensor([9.0], dtype=torch.float16)
    assert torch.sigmoid(logit).float() == 1
    assert torch.sigmoid(logit.float()) < 1


MADE_OF = """\
import torch
import torch.nn.functional as F
from torch import nn


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        p = torch.sigmoid(self.a(x){one})
        q = torch.sigmoid(self.b(x){other})
        return {result}


model = Two().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    {step}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSS = "loss = F.mse_loss(model(x.cuda()), y.cuda())"
BCE = "loss = F.binary_cross_entropy(model(x.cuda()), y.cuda())"
FLOAT = ".float()"


@pytest.mark.parametrize(
    ("result", "step", "one", "other"),
    [
        ("p * q", BCE, FLOAT, FLOAT),  # of two that are 1e-4 float16 makes zero
        ("torch.log(p * q)", LOSS, FLOAT, FLOAT),
        ("torch.log(p * (1 - q) * q)", LOSS, FLOAT, FLOAT),
        ("1 / p + q", LOSS, FLOAT, ""),
        ("q / (1 - p)", LOSS, FLOAT, ""),
        ("q * p.reciprocal()", LOSS, FLOAT, ""),
        ("self.a(x) / p.sum(1, keepdim=True)", LOSS, FLOAT, ""),
        ("2 * (p * x).sum(1) / (p + x).sum(1)", LOSS, FLOAT, ""),  # zero by zero, where nothing is there or found
        ("(p * x).sum(1) / (p.sum(1) + torch.sum(x, 1) - (p * x).sum(1))", LOSS, FLOAT, ""),
        ("x.sum(1) / (0.5 * (p.sum(1) + q.sum(1)))", LOSS, FLOAT, FLOAT),
    ],
)
def test_what_is_infinite_where_probabilities_vanish_is_of_sigmoids_in_float32(
    result: str, step: str, one: str, other: str
) -> None:
    after = migrate_text(MADE_OF.format(result=result, step=step, one="", other=""), Settings()).after
    assert f"        p = torch.sigmoid(self.a(x){one})\n" in after
    assert f"        q = torch.sigmoid(self.b(x){other})\n" in after


@pytest.mark.parametrize(
    "result",
    [
        "p * q + p",
        "p * q * self.a(x)",
        "1 / p.clamp(min=1e-3)",
        "q / (p + 1e-3)",
        "q / (1 + p)",
        "q / (0.01 + 9.9 * p)",
        "(p * x).sum(1) / x.sum(1)",
        "(2 * (p * x).sum(1) + 1) / ((p + x).sum(1) + 1)",
        "(p * x).sum(1) / (p.sum(1) + x.sum(1) + 1e-6)",  # which is float32
        "(p * x).sum(1) / (p + x).sum(1).clamp(min=1)",
        "self.a(x).softmax(1) / self.b(x).softmax(1)",
        "p / q.float().softmax(1)",
    ],
)
def test_what_no_vanishing_probability_makes_infinite_stays_low(result: str) -> None:
    plan = migrate_text(MADE_OF.format(result=result, step=LOSS, one="", other=""), Settings())
    assert f"        return {result}\n" in plan.after
    assert "sigmoid(self.a(x))" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


BY_HAND = """\
import torch
import torch.nn.functional as F
from torch import nn


def loss_of(z, y):
    e = {exponential}
    p = e / {total}
    return {loss}


model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = loss_of({logits}, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"loss": "-(torch.log(p + 1e-9) * y).sum(1).mean()"},
        {"loss": "F.nll_loss(torch.log(p), y)"},
        {"loss": "-torch.log(1 - p[:, 0]).mean()"},
        {"exponential": "(z - z.amax(1, keepdim=True)).exp()"},
        {"total": "(e.sum(1, keepdim=True) + 1e-12)"},
        {"logits": "torch.sigmoid(model(x.cuda()))"},
        {"logits": "(1 - torch.sigmoid(model(x.cuda()))) * x.cuda()"},
    ],
    ids=str,
)
def test_a_softmax_by_hand_is_of_exponentials_in_float32(parts: dict[str, str]) -> None:
    usual = {
        "exponential": "torch.exp(z - z.max(1, keepdim=True)[0])",
        "total": "e.sum(1, keepdim=True)",
        "loss": "-(torch.log(p) * y).sum(1).mean()",
        "logits": "model(x.cuda())",
    }
    plan = migrate_text(BY_HAND.format(**usual | parts), Settings())
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert ".float()" not in plan.after


HELD = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(8, 4), None

    def forward(self, x):
{body}
        return held


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for x, y, z in loader:
    held = net(x.cuda())
    loss = F.binary_cross_entropy(held[:, 0], y.cuda()) + F.mse_loss(held[:, 1:], z.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "after"),
    [
        # Stored among the logits that it is made of, which are to be float32 for it.
        (
            "held = self.fc(x)\nheld[:, :1] = torch.sigmoid(held[:, :1])",
            "held = self.fc(x).float()\nheld[:, :1] = torch.sigmoid(held[:, :1])",
        ),
        (
            "held = self.fc(x).view(-1, 4)\nheld[:, :1] = torch.sigmoid(held[:, :1])",
            "held = self.fc(x).float().view(-1, 4)\nheld[:, :1] = torch.sigmoid(held[:, :1])",
        ),
        (
            "p = torch.sigmoid(self.fc(x))\nheld = self.fc(-x)\nheld[:, :1] = p[:, :1]",
            "p = torch.sigmoid(self.fc(x).float())\nheld = self.fc(-x).float()\nheld[:, :1] = p[:, :1]",
        ),
        # Put together with others, which float32 wins over.
        (
            "out = self.fc(x)\nheld = torch.cat([torch.sigmoid(out[:, :1]), out[:, 1:]], dim=1)",
            "out = self.fc(x)\nheld = torch.cat([torch.sigmoid(out[:, :1].float()), out[:, 1:]], dim=1)",
        ),
        (
            "p, q = self.fc(x).sigmoid(), self.fc(-x).sigmoid()\nheld = torch.stack((p, q), dim=1).flatten(1)",
            "p, q = self.fc(x).float().sigmoid(), self.fc(-x).float().sigmoid()\n"
            "held = torch.stack((p, q), dim=1).flatten(1)",
        ),
        # What is float32 holds what was rounded before.
        (
            "held = torch.zeros(x.shape[0], 4).cuda()\nheld[:, :1] = self.fc(x)[:, :1].sigmoid()",
            "held = torch.zeros(x.shape[0], 4).cuda()\nheld[:, :1] = self.fc(x)[:, :1].float().sigmoid()",
        ),
    ],
)
def test_a_probability_among_other_values_is_of_a_sigmoid_in_float32(body: str, after: str) -> None:
    plan = migrate_text(HELD.format(body=indent(body, " " * 8)), Settings())
    assert indent(after, " " * 8) in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]
    assert migrate_text(plan.after, Settings()).after == plan.after


@pytest.mark.parametrize(
    "body",
    [
        "self.out = self.fc(x)\nheld = self.out.view(-1, 4)\nheld[:, :1] = held[:, :1].sigmoid()",  # others have it
        "held = self.fc(x)\nif x.sum() > 0:\n    held = self.fc(-x)\nheld[:, :1] = held[:, :1].sigmoid()",
        "held = self.fc(x)\nheld[:, :1].sigmoid_()",
        "held = self.fc(x)\nheld.sigmoid_()",
    ],
)
def test_a_probability_in_what_others_may_have_is_told(body: str) -> None:
    text = HELD.format(body=indent(body, " " * 8))
    told = [each for each in migrate_text(text, Settings()).findings if each.code == "AMP502"]
    assert ["binary_cross_entropy() takes probabilities" in each.message for each in told] == [True]


@pytest.mark.parametrize(
    ("body", "loss"),
    [
        ("held = self.fc(x)\nheld[:, :1] = torch.tanh(held[:, :1])", "binary_cross_entropy"),
        ("out = self.fc(x)\nheld = torch.cat([out[:, :1].sigmoid() * 2 - 1, out[:, 1:]], 1)", "binary_cross_entropy"),
        ("held = self.fc(x).float()\nheld[:, :1] = torch.sigmoid(held[:, :1])", "binary_cross_entropy"),
        ("held = self.fc(x)\nheld[:, :1] = torch.sigmoid(held[:, :1])", "l1_loss"),
    ],
)
def test_what_no_rounded_probability_harms_stays_as_it_is(body: str, loss: str) -> None:
    plan = migrate_text(HELD.format(body=indent(body, " " * 8)).replace("binary_cross_entropy", loss), Settings())
    assert indent(body, " " * 8) in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


DRAWN = """\
import torch
from torch import nn
from torch.distributions import {}

net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    optimizer.zero_grad()
    scores = net(x.cuda())
    loss = -{}.mean()
    loss.backward()
    optimizer.step()
"""


def drawn(name: str, computed: str) -> tuple[str, list[str]]:
    plan = migrate_text(DRAWN.format(name, computed), Settings())
    assert "autocast" in plan.after
    return plan.after, [each.code for each in plan.findings if each.code != "AMP501"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Bernoulli", "torch.sigmoid(scores)"),
        ("Bernoulli", "probs=torch.sigmoid(scores)"),
        ("Binomial", "8, torch.sigmoid(scores)"),
        ("Categorical", "torch.sigmoid(scores)"),
        ("Bernoulli", "torch.sigmoid(scores) - 1e-5"),
        ("Bernoulli", "-1e-5 + torch.sigmoid(scores)"),
        ("Bernoulli", "(1 - 1e-5) * torch.sigmoid(scores)"),
        ("Bernoulli", "torch.sigmoid(scores) * 0.99999"),
    ],
)
@pytest.mark.parametrize("method", ["log_prob(y.cuda())", "entropy()"])
def test_a_distribution_gets_probabilities_of_float32_scores(name: str, given: str, method: str) -> None:
    after, told = drawn(name, f"{name}({given}).{method}")
    assert f"{name}({given.replace('(scores)', '(scores.float())')}).{method}" in after
    assert told == []


@pytest.mark.parametrize(
    ("name", "computed"),
    [
        ("Bernoulli", "Bernoulli(logits=scores).log_prob(y.cuda())"),
        ("Bernoulli", "Bernoulli(torch.sigmoid(scores.float())).log_prob(y.cuda())"),
        ("Categorical", "Categorical(torch.softmax(scores, dim=1)).log_prob(y.cuda())"),  # float32 by autocast
        ("Bernoulli", "(scores * Bernoulli(torch.sigmoid(scores)).sample())"),  # takes no logarithm
        ("Bernoulli", "Bernoulli(torch.sigmoid(scores) - 0.5).log_prob(y.cuda())"),
        ("Bernoulli", "Bernoulli(0.25 * torch.sigmoid(scores)).log_prob(y.cuda())"),
    ],
)
def test_other_distributions_are_as_they_were(name: str, computed: str) -> None:
    after, told = drawn(name, computed)
    assert f"-{computed}.mean()" in after
    assert told == []


def test_a_clamped_probability_of_float16_has_no_gradient() -> None:
    gradients = []
    for dtype in (torch.float16, torch.float32):
        score = torch.tensor([9.6], requires_grad=True)
        chance = torch.sigmoid(score.to(dtype))
        loss = -torch.distributions.Bernoulli(chance, validate_args=False).log_prob(torch.zeros(1, dtype=dtype))
        loss.float().sum().backward()
        gradients.append(float(score.grad if score.grad is not None else 1))
    assert gradients[0] == 0
    assert gradients[1] > 0.9


@pytest.mark.parametrize("less", [lambda chance: chance - 1e-5, lambda chance: chance * (1 - 1e-5)])
def test_what_float16_keeps_from_one_in_vain_is_one(less: Callable[[torch.Tensor], torch.Tensor]) -> None:
    score = torch.tensor(20.0)
    assert less(torch.sigmoid(score)) < 1
    assert less(torch.sigmoid(score.half())) == 1
