"""Regions in generators: what takes a value would run under a region that is open round a `yield`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_a_step_whose_generator_gives_a_value_behind_it(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, loader):
        + def train(model, optimizer, scaler, loader):
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
                  yield loss.item()

          MODEL
        + scaler = torch.amp.GradScaler("cuda")
        - for loss in train(model, optimizer, loader):
        + for loss in train(model, optimizer, scaler, loader):
              print(loss)
        """
    )


def test_what_is_given_between_forward_and_loss_is_given_outside_of_both_regions(rewrites: Check) -> None:
    rewrites(
        """
          def train(model, loader):
        ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              for x, y in loader:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
                  yield out
        -         loss = nn.functional.mse_loss(out, y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(out, y)
        ~         STEP
        """
    )


def test_a_loss_that_is_given_while_it_is_computed(leaves: Check) -> None:
    leaves(
        """
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = nn.functional.mse_loss((yield model(x)), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        """,
        "a generator would leave its autocast region open",
    )


def test_no_region_of_an_evaluation_is_open_where_it_gives_a_value(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH

          @torch.no_grad()
          def predict(loader):
              for x in loader:
                  yield model(x)

          @torch.no_grad()
          def predict_twice(loader):
              for x in loader:
        -         out = model(x)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
                  yield out
        -         again = model(out)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             again = model(out)
                  yield again
        """
    )
