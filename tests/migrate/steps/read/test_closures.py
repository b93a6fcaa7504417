"""Optimizers that evaluate a closure beside others: their step is one of its own, and stays by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.report.finding import Kind

Check = Callable[..., Any]


@pytest.mark.parametrize("others", ["model", "nn.Linear(2, 2).cuda()"])
def test_step_before_one_that_evaluates_a_closure(rewrites: Check, others: str) -> None:
    plan = rewrites(
        f"""
        ~ MODEL
          x, y = torch.rand(4, 2).cuda(), torch.rand(4, 2).cuda()
          for _ in range(9):
              optimizer.zero_grad()
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
        ~     optimizer.step()
          net = {others}
          fine = torch.optim.LBFGS(net.parameters())
          for _ in range(9):
              def closure():
                  fine.zero_grad()
                  loss = nn.functional.mse_loss(net(x), y)
                  loss.backward()
                  return loss
              loss = fine.step(closure)
              print(loss.item())
        """
    )
    (left,) = (each for each in plan.findings if each.kind is not Kind.MIGRATED)
    assert "optimizer.step(closure) cannot be used with a loss scaler" in left.message


TURNS = """
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fine = torch.optim.LBFGS(model.parameters())
    x, y = torch.rand(4, 2).cuda(), torch.rand(4, 2).cuda()
    def closure():
        {begins}
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss
    for _ in range(9):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        {steps}
"""


def test_closure_that_clears_what_a_scaler_has_stepped_on(migrate: Check) -> None:
    text = TURNS.format(begins="fine.zero_grad()", steps="optimizer.step(); fine.step(closure)")
    assert "scaler.step(optimizer)" in migrate(text).after


@pytest.mark.parametrize(
    ("begins", "steps"),
    [
        ("pass", "optimizer.step(); fine.step(closure)"),
        ("fine.zero_grad()", "fine.step(closure); optimizer.step()"),
        ("pass", "fine.step(closure); optimizer.step()"),
    ],
)
def test_closure_whose_gradients_meet_those_of_a_scaler(leaves: Check, begins: str, steps: str) -> None:
    leaves(TURNS.format(begins=begins, steps=steps), "left as it was")


@pytest.mark.parametrize("closure", ["lambda: loss", "given", "evaluate"])
def test_closure_that_does_not_go_backward_itself(leaves: Check, closure: str) -> None:
    leaves(
        f"""
        def evaluate():
            return model(x).mean()
        model, x = nn.Linear(2, 2).cuda(), torch.rand(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        fine = torch.optim.LBFGS(model.parameters())
        for given in closures:
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            fine.step({closure})
        """,
        f"fine.step({closure}) ",
    )
