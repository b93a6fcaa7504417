"""Calls for gradient penalties that are terms of a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

PENALTY = """
        - def penalty(D, x):
        -     out = D(x)
        -     g = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)[0]
        -     return (g.norm(2, dim=1) - 1).mean()
        + def penalty(D, x, scaler):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = D(x)
        +     g = torch.autograd.grad(scaler.scale(out), x, torch.ones_like(out), create_graph=True)[0]
        +     g = g / scaler.get_scale()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         return (g.norm(2, dim=1) - 1).mean()
"""
PLAIN = "\n".join(line.replace("- ", "", 1) for line in PENALTY.splitlines() if line.strip().startswith("-"))


def test_what_is_computed_in_front_of_the_call_gets_a_name_in_the_region_before(rewrites: Check) -> None:
    rewrites(
        f"""{PENALTY}
          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x, fake in loader:
        -         loss = D(fake).mean() - D(x).mean() + 10 * penalty(D, x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss_part = D(fake).mean() - D(x).mean()
        +         loss = loss_part + 10 * penalty(D, x, scaler)
        ~         STEP
        """
    )


def test_each_side_that_a_region_is_for_gets_one_and_all_in_front_of_it(rewrites: Check) -> None:
    rewrites(
        f"""{PENALTY}
          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x, fake in loader:
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss_part = x.mean()
        +             loss_part_2 = D(fake).mean()
        -         loss = x.mean() + D(fake).mean() * penalty(D, x)
        +         loss = loss_part + loss_part_2 * penalty(D, x, scaler)
        ~         STEP
        """
    )


def test_what_autocast_leaves_as_it_is_stays_in_the_expression(rewrites: Check) -> None:
    rewrites(
        f"""{PENALTY}
          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x, fake in loader:
        -         out = D(fake)
        -         loss = out.mean() + penalty(D, x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = D(fake)
        +         loss = out.mean() + penalty(D, x, scaler)
        ~         STEP
        """
    )


def test_a_penalty_that_is_added_to_a_loss(rewrites: Check) -> None:
    rewrites(
        f"""{PENALTY}
          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x, fake in loader:
        -         loss = D(fake).mean()
        -         loss += 10 * penalty(D, x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = D(fake).mean()
        +         loss += 10 * penalty(D, x, scaler)
        ~         STEP
        """
    )


def test_a_loss_with_a_penalty_that_a_function_returns(rewrites: Check) -> None:
    rewrites(
        f"""{PENALTY}
        - def loss_of(D, x, fake):
        -     return D(fake).mean() - D(x).mean() + penalty(D, x)
        + def loss_of(D, x, fake, scaler):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss_part = D(fake).mean() - D(x).mean()
        +     return loss_part + penalty(D, x, scaler)

          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
              for x, fake in loader:
        -         loss = loss_of(D, x, fake)
        +         loss = loss_of(D, x, fake, scaler)
        ~         STEP
        """
    )


def test_an_apex_step_has_no_region_round_the_call_either(rewrites: Check) -> None:
    rewrites(
        f"""
        ~ APEX
        {PENALTY}
          def train(D, loader):
              optimizer = torch.optim.Adam(D.parameters())
        -     D, optimizer = amp.initialize(D, optimizer, opt_level="O1")
        +     scaler = torch.amp.GradScaler("cuda")
              for x, fake in loader:
        -         loss = D(fake).mean() + penalty(D, x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss_part = D(fake).mean()
        +         loss = loss_part + penalty(D, x, scaler)
        ~         APEX_STEP
        """
    )


@pytest.mark.parametrize(
    "loss",
    [
        "penalty(D, x) + D(fake).mean()",  # the region of what comes behind would be round the call
        "D(fake).mean() + penalty(D, D(x))",
        "torch.add(D(fake).mean(), penalty(D, x))",
        "D(fake).mean() + (penalty(D, x) if x.any() else 0)",
        "penalty(D, x) + D(fake).mean() * penalty(D, x)",
    ],
)
def test_other_expressions_with_such_a_call(loss: str, leaves: Check) -> None:
    told = leaves(
        f"""{PLAIN}
        def train(D, loader):
            optimizer = torch.optim.Adam(D.parameters())
            for x, fake in loader:
                loss = {loss}
                STEP
        """,
        "torch.autograd.grad()",
    )
    assert told.hint.startswith("call what takes them on a line of its own")


def test_a_mean_that_goes_on_from_round_to_round(leaves: Check) -> None:
    leaves(
        f"""{PLAIN}
        def train(D, loader):
            optimizer = torch.optim.Adam(D.parameters())
            mean = 0
            for x, fake in loader:
                mean = 0.9 * mean + 0.1 * penalty(D, x)
                loss = D(fake).mean() + mean
                STEP
        """,
        "torch.autograd.grad()",
    )
