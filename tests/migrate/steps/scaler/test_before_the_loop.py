"""A scaler that cannot be made beside its optimizer is made before the loop that trains, where that is run but once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

MADE = '+ scaler = torch.amp.GradScaler("cuda")'
OPTIMIZER = "torch.optim.SGD(model.parameters(), lr=0.1)"


def test_optimizers_of_the_objects_in_a_list(rewrites: Check) -> None:
    rewrites(
        f"""
          class Agent:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

          agents = [Agent(), Agent()]
        {MADE}
          for x, y in loader:
        ~     loss = sum(nn.functional.mse_loss(agent.net(x), y) for agent in agents)
        -     loss.backward()
        +     scaler.scale(loss).backward()
              for agent in agents:
        -         agent.optimizer.step()
        +         scaler.step(agent.optimizer)
        +     scaler.update()
              tidy(*agents)
        """
    )


@pytest.mark.parametrize("optimizers", ["optimizers[:1]", "reversed(optimizers)", "load(optimizers)"])
def test_what_a_loop_runs_over(rewrites: Check, optimizers: str) -> None:
    rewrites(
        f"""
          model = nn.Linear(2, 2)
          optimizers = [{OPTIMIZER}]
        {MADE}
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     scaler.scale(loss).backward()
              for optimizer in {optimizers}:
        -         optimizer.step()
        +         scaler.step(optimizer)
        +     scaler.update()
              model.zero_grad()
        """
    )


@pytest.mark.parametrize(
    "made",
    [
        f"optimizer = {OPTIMIZER}",  # anew for each step
        "optimizer = first if x.sum() > 0 else second",
        "net.set_optimizer(); optimizer = net.optimizer",
    ],
)
def test_an_optimizer_of_each_turn(rewrites: Check, made: str) -> None:
    rewrites(
        f"""
          model = nn.Linear(2, 2)
        {MADE}
          for x, y in loader:
              {made}
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
        """
    )


@pytest.mark.parametrize("call", ["train(*everything)", "train(**everything)", "train(model, load(), loader)"])
def test_an_optimizer_that_cannot_be_followed_through_a_call(rewrites: Check, call: str) -> None:
    rewrites(
        f"""
          def train(model, optimizer, loader):
        {MADE.replace("+ ", "+     ")}
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP

          def main():
              {call}

          main()
        """
    )


@pytest.mark.parametrize(
    "calls",
    [
        "for epoch in range(2):\n    train(*everything)",
        "[train(*everything) for epoch in range(2)]",
        "again(lambda: train(*everything))",
        "def main():\n    train(*everything)\nwhile True:\n    main()",
        "def main():\n    train(*everything)\nspawn(main)",
        "train(*everything)\nspawn(train)",
    ],
)
def test_a_loop_that_may_run_again_and_again(leaves: Check, calls: str) -> None:
    text = "def train(model, optimizer, loader):\n    for x, y in loader:\n"
    text += "        loss = nn.functional.mse_loss(model(x), y)\n        loss.backward()\n        optimizer.step()\n"
    leaves(f"{text}\n{calls}\n", "no way for a loss scaler")


def test_the_scaler_goes_into_the_checkpoint_beside_the_loop(rewrites: Check) -> None:
    rewrites(
        f"""
          def train(model, optimizer, loader):
        {MADE.replace("+ ", "+     ")}
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
        -     torch.save({{"optimizer": optimizer.state_dict()}}, "last.pt")
        +     torch.save({{"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}}, "last.pt")

          train(*everything)
        """
    )
