"""A step whose forward is in no region is left, though what it trains is evaluated in some."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import lib
import torch
from torch import nn
from torch.distributions import Categorical


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.options, self.policy = nn.Linear(4, 64), nn.Linear(64, 3), nn.Linear(64, 2)

    def forward(self, x):
        h = self.body(x).relu()
        return self.options(h), self.policy(h).softmax(-1)


class Agent:
    def __init__(self, env):
        self.env = env
        self.net, self.target = Critic().cuda(), Critic().cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.values, self.log_probs, self.rewards = [], [], []

    def act(self, state):
        values, policy = self.net(torch.as_tensor(state).cuda())
        choice = Categorical(policy)
        action = choice.sample()
        self.values.append(values.max())
        self.log_probs.append(choice.log_prob(action))
        return action.item()

    def learn(self, state):
        with torch.no_grad():
            later, _ = self.target(torch.as_tensor(state).cuda())
        total = later.max()
        loss = 0
        for value, log_prob, reward in zip(self.values, self.log_probs, self.rewards):
            total = reward + 0.99 * total
            loss = loss + (total - value).pow(2) - log_prob * (total - value).detach()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def train(self):
        state = self.env.reset()
        for _ in range(1000):
            state, reward, done = self.env.step(self.act(state))
            self.rewards.append(reward)
            if done:
                self.learn(state)

    def test(self):
        state = self.env.reset()
        total = 0
        for _ in range(1000):
            values, policy = self.net(torch.as_tensor(state).cuda())
            TAKES
            state, reward, done = self.env.step(action.item())
            total += reward
        return RETURNS


agent = Agent(lib.make())
agent.train()
print(agent.test())
"""
LEFT = "left as it was: nothing that is trained computes in half precision (line 55)"


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
@pytest.mark.parametrize(
    "takes",
    [
        "action = policy.argmax(-1)",
        "action = Categorical(policy).sample()",
        "choice = Categorical(policy); action = choice.sample()",
        "print(values); action, _ = policy.argmax(-1), values",
        "best = [each for each in policy]; action = torch.stack(best).argmax()",
    ],
)
def test_an_evaluation_that_records_gradients_serves_no_loss(dtype: Dtype, takes: str) -> None:
    text = TEXT.replace("TAKES", takes).replace("RETURNS", "total")
    plan = migrate_text(text, Settings(dtype))
    assert plan.after == text
    assert [each.message for each in plan.findings] == [LEFT]


@pytest.mark.parametrize(
    ("takes", "returns"),
    [
        ("action = policy.argmax(-1)", "total, values"),
        ("action = policy.argmax(-1); self.values.append(values)", "total"),
        ("action = policy.argmax(-1); self.last = values", "total"),
        ("action = lib.take(policy)", "total"),
        ("action = policy.argmax(-1); more = values.sum()", "total + more"),
        ("action = policy.argmax(-1); later = lambda: values", "later"),
    ],
)
def test_what_leaves_a_function_may_come_to_a_loss(takes: str, returns: str) -> None:
    text = TEXT.replace("TAKES", takes).replace("RETURNS", returns)
    plan = migrate_text(text, Settings())
    assert LEFT not in [each.message for each in plan.findings]
