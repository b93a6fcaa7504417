"""New code goes through names that are bound where it stands, and brings in torch where nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_users_name_for_torch(rewrites: Check) -> None:
    rewrites(
        """
          import torch as th

          model = th.nn.Linear(2, 2)
          optimizer = th.optim.SGD(model.parameters(), lr=0.1)
        + scaler = th.amp.GradScaler("cuda")
          for x in loader:
        -     loss = model(x).mean()
        +     with th.amp.autocast(device_type="cuda", dtype=th.float16):
        +         loss = model(x).mean()
        ~     STEP
        """,
        head="",
    )


def test_users_name_for_amp(rewrites: Check) -> None:
    rewrites(
        """
          import torch
          from torch import amp, nn

          MODEL
        + scaler = amp.GradScaler("cuda")
          for x in loader:
        -     loss = model(x).mean()
        +     with amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        ~     STEP
        """,
        head="",
    )


def test_torch_is_imported_beside_what_comes_from_it(rewrites: Check) -> None:
    rewrites(
        """
          #!/usr/bin/env python
          # coding: utf-8
          '''Train.'''

        + import torch
          from torch.nn import Linear
          from torch.optim import SGD

          model = Linear(2, 2)
        ~ optimizer = SGD(model.parameters(), lr=0.1)
        ~ EPOCH
        """,
        head="",
    )


def test_torch_is_imported_behind_the_docstring_of_a_file_without_imports(rewrites: Check) -> None:
    rewrites(
        """
          '''Train.'''
        + import torch


        - def step(model, optimizer, x):
        + def step(model, optimizer, scaler, x):
        ~     loss = model(x)
        ~     STEP


          def main(model, make, loader):
        ~     optimizer = make(model.parameters())
              for x in loader:
        -         step(model, optimizer, x)
        +         step(model, optimizer, scaler, x)
        """,
        head="",
    )


def test_torch_imported_in_the_function(rewrites: Check) -> None:
    rewrites(
        """
          def main(loader):
              import torch

              model = torch.nn.Linear(2, 2)
        ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~     EPOCH
        """,
        head="",
    )


def test_guarded_import_of_torch_stays_the_only_one(migrate: Check) -> None:
    plan = migrate(
        """
        try:
            import torch
        except ImportError:
            torch = None

        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        EPOCH
        """,
        head="",
    )
    assert plan.after.count("import torch") == 1


def test_parameter_called_torch_is_not_taken_for_the_module(migrate: Check) -> None:
    plan = migrate(
        """
        from torch import nn


        def train(torch, make, loader):
            model = nn.Linear(2, 2)
            optimizer = make(model.parameters())
            EPOCH
        """,
        head="",
    )
    assert "with torch." not in plan.after
