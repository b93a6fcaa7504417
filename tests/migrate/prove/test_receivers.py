"""Whose method is called is known where it is known what made the object."""

from __future__ import annotations

import pytest
from amp_migrate.prove.check import Change, Project, faults
from amp_migrate.prove.code.program import Others

from .conftest import Check, found

BEFORE = """
import torch
from networks import Critic
class Own(torch.nn.Module):
    pass
class Client:
    def __init__(self, given, deep):
        self.critic = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
    def loss(self, x):
        self.critic.train()
        return self.critic(x).mean()
    def step(self, x):
        loss = self.loss(x)
        loss.backward()
        self.optimizer.step()
class Server:
    def train(self, model=None, optimizer=None, x=None):
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""
AFTER = (
    BEFORE.replace("lr=1e-3)\n", "lr=1e-3)\n        self.scaler = torch.amp.GradScaler('cuda')\n")
    .replace(
        "        loss = self.loss(x)",
        "        with torch.autocast('cuda', torch.float16):\n            loss = self.loss(x)",
    )
    .replace("loss.backward()\n        self.", "self.scaler.scale(loss).backward()\n        self.")
    .replace("self.optimizer.step()", "self.scaler.step(self.optimizer)\n        self.scaler.update()")
    .replace("        loss = model(x)", "        scaler = torch.amp.GradScaler('cuda')\n        loss = model(x)")
    .replace("loss.backward()\n        opt", "scaler.scale(loss).backward()\n        opt")
    .replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
)
MADE = "self.critic = torch.nn.Linear(8, 1)"
INSIDE = "inside an autocast region"


def others(text: str) -> Project:
    def of_networks(module: str, importer: str) -> str | None:
        return text if module == "networks" else None

    return Project(lambda module, importer: None, Others(of_networks, lambda word: False), ((2, 6), (2, 15)))


@pytest.mark.parametrize(
    "made",
    [
        MADE,
        "self.critic = torch.nn.Linear(8, 1).cuda()",
        "self.critic: torch.nn.Module = torch.nn.Linear(8, 1).to('cuda').float()",
        "self.critic = torch.nn.Linear(8, 1) if deep else torch.nn.Identity()",
        "self.critic = Own()",
        "self.critic = Own().cuda()",
    ],
)
def test_a_module_is_not_taken_for_the_trainer_whose_method_is_called_like_its_own(wrong: Check, made: str) -> None:
    assert wrong(BEFORE.replace(MADE, made), AFTER.replace(MADE, made)) == ""


@pytest.mark.parametrize(
    "made", ["self.critic = given", "self.critic = Server()", "self.critic = Server() if deep else Own()"]
)
def test_an_object_that_may_be_the_trainer_is_taken_for_it(wrong: Check, made: str) -> None:
    before, after = (each.replace(MADE, made).replace("self.critic(x).mean()", "x") for each in (BEFORE, AFTER))
    assert INSIDE in wrong(before, after)


@pytest.mark.parametrize(
    ("network", "is_known"),
    [
        ("import torch\nclass Critic(torch.nn.Module):\n    pass\n", True),
        ("from train import Server\nclass Critic(Server):\n    pass\n", False),
        ("Critic = make()\n", False),
    ],
)
def test_a_class_of_a_file_that_stays_as_it_is(network: str, is_known: bool) -> None:
    made = "self.critic = Critic()"
    before, after = (each.replace(MADE, made) for each in (BEFORE, AFTER))
    wrong = faults([Change("train.py", before, after)], others(network))
    assert [INSIDE in each.message for each in wrong.values()] == ([] if is_known else [True])


def test_a_disorder_is_of_the_file_that_it_is_in() -> None:
    calls = "import torch\nfrom other import learn\ndef run(model, x, optimizer):\n"
    before = {
        "calls.py": f"{calls}    learn(model, x, optimizer)\n",
        "other.py": "def learn(model, x, optimizer):\n    model(x).sum().backward()\n    optimizer.step()\n",
    }
    region = "    with torch.autocast('cuda', torch.float16):\n        learn(model, x, optimizer, scaler)\n"
    after = {
        "calls.py": f"{calls}    scaler = torch.amp.GradScaler('cuda')\n{region}",
        "other.py": before["other.py"]
        .replace("optimizer)", "optimizer, scaler)")
        .replace("model(x).sum().backward()", "scaler.scale(model(x).sum()).backward()")
        .replace("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()"),
    }
    wrong = found(before, after)
    assert [(name, each.line_after) for name, each in wrong.items() if INSIDE in each.message] == [("other.py", 2)]
