"""What steps is called again, whoever does that: gradients that it leaves are there the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.questions import NO_GRADIENTS, OF_TWO_SCALES
from amp_migrate.settings import Settings

Check = Callable[..., Any]

AGENT = """\
import copy
import torch
from torch import nn


class Agent:
    def __init__(self, device):
        self.actor = nn.Linear(4, 4).to(device)
        self.target = copy.deepcopy(self.actor)
        self.critic = nn.Linear(4, 1).to(device)
        self.of_actor = torch.optim.Adam(self.actor.parameters())
        self.of_critic = torch.optim.Adam(self.critic.parameters())

    def train_critic(self, x, y):
        {before_critic}
        loss = nn.functional.mse_loss(self.critic(x), y)
        loss.backward()
        self.of_critic.step()
        {behind_critic}

    def train_actor(self, x):
        {before_actor}
        loss = -self.critic(self.{actor}(x)).mean()
        loss.backward()
        self.of_actor.step()
        {behind_actor}

    def train(self, x, y):
        self.train_critic(x, y)
        self.train_actor(x)
"""
MADE = '\n\nagent = Agent("cuda")\n'
CALLED = f"{MADE}for x, y in loader:\n    agent.train(x, y)\n"


def text_of(*, before: str = "pass", behind: str = "pass", actor: str = "actor") -> str:
    def of(text: str, name: str) -> str:
        return text.format(name)

    return AGENT.format(
        actor=actor,
        before_critic=of(before, "critic"),
        behind_critic=of(behind, "critic"),
        before_actor=of(before, "actor"),
        behind_actor=of(behind, "actor"),
    )


@pytest.mark.parametrize("end", ["", MADE, CALLED], ids=["nobody makes it", "nobody calls it", "called in a loop"])
def test_gradients_that_a_step_leaves_are_there_at_its_next_call(leaves: Check, end: str) -> None:
    leaves(text_of(behind="self.of_{}.zero_grad()") + end, OF_TWO_SCALES)


@pytest.mark.parametrize("end", ["", MADE, CALLED], ids=["nobody makes it", "nobody calls it", "called in a loop"])
def test_an_optimizer_that_gets_no_gradients_behind_its_first_step(end: str) -> None:
    text = text_of(behind="self.of_{}.zero_grad()", actor="target")
    only_actor = text.replace("        self.train_critic(x, y)\n", "")
    plan = migrate_text(only_actor + end, Settings())
    assert any(NO_GRADIENTS in each.message for each in plan.findings)


def test_what_is_cleared_first_finds_nothing_of_the_call_before() -> None:
    plan = migrate_text(text_of(before="self.of_{}.zero_grad()"), Settings())
    assert plan.after.count("self.scaler.step(") == 2


def test_what_a_step_does_not_clear_its_caller_may_clear() -> None:
    clear = "\n    def clear(self):\n        self.of_critic.zero_grad()\n        self.of_actor.zero_grad()\n"
    plan = migrate_text(text_of() + clear, Settings())
    assert plan.after.count("self.scaler.step(") == 2


SPLIT = """\
import torch
from torch import nn


class Agent:
    def __init__(self, device):
        self.net = nn.Linear(4, 4).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def backward(self, x):
        with torch.amp.autocast("cuda", dtype=torch.float16):
            loss = self.net(x).mean()
        self.scaler.scale(loss).backward()

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
"""


def test_a_method_that_steps_alone_has_a_backward_between_its_calls() -> None:
    assert not migrate_text(SPLIT, Settings()).findings
