"""What distributions compute of their parameters, beside what PyTorch's own do under CUDA's autocast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.domain.tensor import CUT, F16, F32, FLOWS, INT
from amp_migrate.settings import Settings
from torch import distributions as D
from torch.distributions import Distribution

from .test_sound_precision import known, run, said

_OF_TWO = "Normal LogNormal Laplace Cauchy Gumbel Gamma Uniform Kumaraswamy".split()
_OF_ONE = "Categorical OneHotCategorical Bernoulli Exponential Poisson HalfNormal Geometric".split()
_ASKED = ("sample()", "rsample()", "log_prob(found.sample())", "entropy()", "mean", "variance", "stddev", "mode")

_TEXT = """\
import torch
from elsewhere import fail, flag, note
from torch import distributions as D
from torch.amp import autocast

a, b, c = (torch.rand(4, 4).cuda().requires_grad_() for _ in range(3))
with autocast("cuda", torch.float16):
    loc, scale = a @ b, (b @ c).abs()
"""
_MADE = """\
with autocast("cuda", torch.float16, enabled={made}):
    found = {of}
with autocast("cuda", torch.float16, enabled={is_asked}):
    note({number}, found.{asked})
"""


def _ways() -> list[str]:
    two = [f"D.{kind}(loc, scale)" for kind in _OF_TWO]
    one = [f"D.{kind}(loc)" for kind in _OF_ONE]
    mixed = ["D.Normal(loc, scale.exp())", "D.Normal(loc, 1.0)", "D.Categorical(logits=loc)", "D.Bernoulli(logits=loc)"]
    return [*two, *one, *mixed, "D.Independent(D.Normal(loc, scale), 1)", "D.MultivariateNormal(a[0], scale_tril=b)"]


def _text(of: str, asked: str) -> str:
    """A distribution made, and asked, in regions or outside: in regions both times at the first note."""
    ways = product((True, False), repeat=2)
    made = (_MADE.format(of=of, asked=asked, made=i, is_asked=j, number=at) for at, (i, j) in enumerate(ways))
    return _TEXT + "".join(made)


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let nothing ask what numbers there are: a fake tensor has none.

    What `torch.normal` makes of one is of the promotion of both, and not of its mean's precision.
    """
    drawn = torch.normal
    monkeypatch.setattr(torch, "normal", lambda mean, std: drawn(mean, std).to(mean.dtype))
    Distribution.set_default_validate_args(False)
    yield
    Distribution.set_default_validate_args(True)


@pytest.mark.parametrize("of", _ways())
def test_what_pytorchs_own_give_is_never_denied(of: str) -> None:
    known_of = 0
    for asked in _ASKED:
        text = _text(of, asked)
        try:
            seen = run(text, 0)
        except (AttributeError, NotImplementedError):
            continue  # it has no such method
        told = said(text)
        for number, kinds in seen.items():
            assert told[number]
            if (tensor := known(told[number])) is None:
                continue
            for bits, needs_gradient in kinds:
                assert tensor.precision & bits, (asked, number, bits, tensor.precision)
                assert tensor.flows & (FLOWS if needs_gradient else CUT), (asked, number)
                known_of += 1
    assert known_of >= 8


@pytest.mark.parametrize(
    ("of", "asked", "precision"),
    [
        ("D.Normal(loc, scale)", "rsample()", F16),
        ("D.Normal(loc, scale.exp())", "rsample()", F32),
        ("D.Normal(loc, scale.exp())", "sample()", F16),
        ("D.Normal(loc.exp(), scale)", "sample()", F32),
        ("D.Normal(loc, scale)", "log_prob(c)", F32),
        ("D.Categorical(logits=loc)", "sample()", INT),
        ("D.Categorical(logits=loc)", "log_prob(c)", F32),
        ("D.kl_divergence(D.Normal(loc, scale), D.Normal(0, 1))", "mean()", F32),
    ],
)
def test_what_is_drawn_and_measured_most_is_known_exactly(of: str, asked: str, precision: int) -> None:
    tensor = known(said(_text(of, asked))[0])
    assert tensor is not None
    assert tensor.precision == precision
    assert tensor.flows == (CUT if asked == "sample()" else FLOWS)


_POLICY = """\
import torch
from torch import nn
from torch.distributions import {kind}


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
        self.mean = nn.Linear(64, 4)
        self.spread = nn.Linear(64, 4)

    def forward(self, x):
        x = self.body(x)
        found = {made}
        action = found.{draw}()
        return action, found.log_prob(action)


def train(env, batches):
    policy = Policy().cuda()
    critic = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.001)
    for x in batches:
        x = x.cuda()
        action, density = policy(x)
        env.act(action.cpu().numpy())
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("is_discrete", [True, False])
def test_a_policy_gets_gradients_through_what_it_draws(is_discrete: bool) -> None:
    """What a Categorical draws is indices, which no cast is for; what `rsample` draws has gradients of its own."""
    if is_discrete:
        words = {"kind": "Categorical", "made": "Categorical(logits=self.mean(x))", "draw": "sample"}
        text = _POLICY.format(loss="(density * env.reward()).mean()", **words)
    else:
        words = {"kind": "Normal", "made": "Normal(self.mean(x), self.spread(x).exp())", "draw": "rsample"}
        text = _POLICY.format(loss="-critic(torch.cat([x, action], 1)).mean()", **words)
    outcome = migrate_text(
        text.replace("action.cpu()", "action.cpu()" if is_discrete else "action.detach().cpu()"), Settings()
    )
    assert [each.code for each in outcome.findings] == ["AMP501"]
    assert "scaler.step(optimizer)" in outcome.after
    assert "is_floating_point" not in outcome.after


def test_a_covariance_matrix_is_taken_apart_in_float32() -> None:
    made = "MultivariateNormal(self.mean(x), torch.diag_embed(torch.relu(self.spread(x)) + 1))"
    text = _POLICY.format(loss="-density.mean()", draw="rsample", kind="MultivariateNormal", made=made)
    after = migrate_text(text, Settings()).after
    assert "torch.diag_embed((torch.relu(self.spread(x)) + 1).float()))" in after


def test_what_is_drawn_is_of_its_means_precision() -> None:
    mean, spread = torch.zeros(2, dtype=torch.float16), torch.ones(2)
    assert torch.normal(mean, spread).dtype is torch.float16
    assert D.Normal(mean, spread).sample().dtype is torch.float16
    assert D.Normal(spread, mean + 1).sample().dtype is torch.float32


_DRAWN = """\
import torch
from torch import distributions as D
from torch import nn

net = nn.Linear(8, 4).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
for x, y in loader:
    loc, scale = net(x.cuda()).chunk(2, -1)
    {drawn}
    loss = (found * y.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("drawn", "after"),
    [
        ("found = D.Normal(loc, scale.exp()).rsample()", "found = D.Normal(loc.float(), scale.exp()).rsample()"),
        ("found = D.Normal(loc, 1.0).sample() * loc", "found = D.Normal(loc.float(), 1.0).sample() * loc"),
        (
            "found = D.Laplace(scale=scale, loc=loc).rsample()",
            "found = D.Laplace(scale=scale.float(), loc=loc.float()).rsample()",
        ),
        (
            "of = D.Normal(loc, scale.exp())\n    found = D.Independent(of, 1).rsample()",
            "of = D.Normal(loc.float(), scale.exp())",
        ),
        (
            "found = D.TransformedDistribution(D.Normal(loc, 1.0), [D.TanhTransform()]).rsample()",
            "D.TransformedDistribution(D.Normal(loc.float(), 1.0), ",
        ),
        ("found = torch.normal(loc, 1.0) * loc", "found = torch.normal(loc.float(), 1.0) * loc"),
    ],
)
def test_noise_is_drawn_by_float32(drawn: str, after: str) -> None:
    plan = migrate_text(_DRAWN.format(drawn=drawn), Settings())
    assert after in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


@pytest.mark.parametrize(
    "drawn",
    [
        "found = D.Normal(loc.exp(), scale.exp()).rsample()",
        "found = D.Normal(loc, scale.exp()).log_prob(y.cuda())",
        "found = D.Bernoulli(logits=loc).sample() * loc",
        "of = D.Categorical(logits=loc)\n    found = of.log_prob(of.sample())",
        "found = torch.normal(0.0, 1.0, (4, 2)).cuda() * loc",
        "found = loc + torch.randn_like(loc)",
    ],
)
def test_what_draws_no_noise_by_half_precision_is_left_as_it_is(drawn: str) -> None:
    plan = migrate_text(_DRAWN.format(drawn=drawn), Settings())
    assert drawn.replace("\n", "\n    ") in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]


def test_noise_is_drawn_by_float32_where_a_method_draws_in_regions_and_outside() -> None:
    text = """\
import torch
from torch import nn
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(8, 2)

    def sample(self, x):
        mean = self.mean(x)
        found = Normal(mean, 1.0)
        return found.rsample()


class Agent:
    def __init__(self):
        self.policy = Policy().cuda()
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def act(self, x):
        return self.policy.sample(torch.FloatTensor(x).cuda()).detach().cpu().numpy()

    def learn(self, x):
        loss = self.policy.sample(torch.FloatTensor(x).cuda()).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent()
for x in environment:
    environment.step(agent.act(x))
    agent.learn(x)
"""
    plan = migrate_text(text, Settings())
    assert "found = Normal(mean.float(), 1.0)" in plan.after
    assert [each.code for each in plan.findings] == ["AMP501"]
