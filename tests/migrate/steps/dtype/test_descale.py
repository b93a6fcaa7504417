"""From float16 to bfloat16: a scaler goes with every use of it, or stays switched off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_name_in_a_module(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
          for x, y in loader:
              optimizer.zero_grad()
        -     with torch.cuda.amp.autocast(enabled=use_amp):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=use_amp):
                  loss = model(x, y)
        -     scaler.scale(loss).backward()
        -     scaler.unscale_(optimizer)
        +     loss.backward()
              torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     scaler.step(optimizer)
        -     scaler.update()
        +     optimizer.step()
        """,
        dtype="bf16",
    )


def test_attribute_of_self(rewrites: Check) -> None:
    rewrites(
        """
          class T:
              def __init__(self):
        -         self.scaler = torch.cuda.amp.GradScaler()
        +         pass
              def step(self, x):
        -         with torch.autocast("cuda", dtype=torch.float16):
        +         with torch.autocast("cuda", dtype=torch.bfloat16):
                      loss = self.model(x)
        -         self.scaler.scale(loss).backward()
        -         self.scaler.step(self.optimizer)
        -         self.scaler.update()
        +         loss.backward()
        +         self.optimizer.step()
        """,
        dtype="bf16",
    )


def test_a_scaler_is_switched_off_where_its_region_is_in_another_file(rewrites_files: Check) -> None:
    files = {
        "net.py": """
          import torch

        - @torch.cuda.amp.autocast()
        + @torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
          def loss_of(model, x, y):
              return (model(x) - y).square().mean()
        """,
        "train.py": """
          import torch
          from net import loss_of

          def train(model, loader, optimizer):
        -     scaler = torch.amp.GradScaler("cuda")
        +     scaler = torch.amp.GradScaler("cuda", enabled=False)
              for x, y in loader:
                  loss = loss_of(model, x, y)
                  scaler.scale(loss).backward()
                  scaler.step(optimizer)
                  scaler.update()
        """,
    }
    findings = rewrites_files(files, "bf16")
    assert ["is in another file" in each.message for each in findings if "GradScaler" in each.message] == [True]


STEP = """
    def train(model, loader, optimizer):
        scaler = torch.amp.GradScaler("cuda")
        for x, y in loader:
            {}
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_a_scaler_stays_on_where_its_region_is_in_none_of_the_files(leaves: Check, dtype: str) -> None:
    why = "GradScaler stays on: the autocast region of its step is in none of the files"
    leaves(STEP.format("loss = model(x, y)"), why, dtype)


FOREIGN = """
    from library import smart_autocast

    class Trainer(Base):
        def fit(self, model, loader, optimizer):
            with torch.autocast("cuda"):
                model(x)
            scaler = torch.cuda.amp.GradScaler(enabled=self.amp)
            for x, y in loader:
                with {}:
                    loss = model(x, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
"""


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
@pytest.mark.parametrize("context", ["smart_autocast(True)", "self.autocast()", "model.autocast()"])
def test_a_scaler_stays_on_beside_an_autocast_of_somebody_else(migrate: Check, context: str, dtype: str) -> None:
    plan = migrate(FOREIGN.format(context), dtype)
    assert 'torch.amp.GradScaler("cuda", enabled=self.amp)' in plan.after
    assert 'torch.autocast("cuda", dtype=' in plan.after
    told = [each.message for each in plan.findings if "stays on" in each.message]
    assert [context.partition("(")[0] in each for each in told] == [True]


OWN = """
    def smart_autocast(enabled):
        return torch.cuda.amp.autocast(enabled=enabled)

    class Trainer:
        def __init__(self):
            self.autocast = torch.autocast("cuda")

        def fit(self, model, loader, optimizer):
            scaler = torch.amp.GradScaler("cuda")
            for x, y in loader:
                with {}:
                    loss = model(x, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
"""


@pytest.mark.parametrize("context", ["smart_autocast(True)", "self.autocast"])
def test_a_scaler_goes_with_an_autocast_that_the_script_makes_elsewhere(migrate: Check, context: str) -> None:
    assert "GradScaler" not in migrate(OWN.format(context), "bf16").after


@pytest.mark.parametrize("off", ["enabled=False", "2.0**16, 2.0, 0.5, 2000, False", "**args, enabled=False"])
def test_a_scaler_that_was_off_stays_in_the_file_of_a_step_that_moves(migrate: Check, off: str) -> None:
    text = STEP.format("loss = model(x, y)").replace('"cuda")', f'"cuda", {off})') + PLAIN
    plan = migrate(text, "bf16")
    assert f'scaler = torch.amp.GradScaler("cuda", {off})' in plan.after
    assert plan.after.count("torch.amp.autocast(") == 1


def test_a_scaler_stays_on_when_only_a_step_beside_it_gets_a_region(migrate: Check) -> None:
    plan = migrate(STEP.format("loss = model(x, y)") + PLAIN, "bf16")
    assert 'scaler = torch.amp.GradScaler("cuda")\n' in plan.after
    assert plan.after.count("torch.amp.autocast(") == 1


PLAIN = """
    def train_plain(model, loader, optimizer):
        for x, y in loader:
            loss = model(x, y)
            STEP
"""


def test_parameter_and_argument(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, scaler, loader):
        + def train(model, optimizer, loader):
              for x, y in loader:
        -         with torch.amp.autocast("cuda", dtype=torch.float16):
        +         with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                      loss = model(x, y)
        -         scaler.scale(loss / 4).backward()
        -         scaler.step(optimizer)
        -         scaler.update()
        - scaler = torch.amp.GradScaler("cuda")
        - train(model, optimizer, scaler, loader)
        +         (loss / 4).backward()
        +         optimizer.step()
        + train(model, optimizer, loader)
        """,
        dtype="bf16",
    )


def test_argument_that_a_caller_was_given_itself(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, scaler, loader):
        + def train(model, optimizer, loader):
              for x, y in loader:
        -         with torch.amp.autocast("cuda", dtype=torch.float16):
        +         with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                      loss = model(x, y)
        -         scaler.scale(loss).backward()
        -         scaler.step(optimizer)
        -         scaler.update()
        - def rounds(model, optimizer, scaler, loader):
        +         loss.backward()
        +         optimizer.step()
        + def rounds(model, optimizer, loader):
        -     train(model, optimizer, scaler, loader)
        - scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer, loader)
          if warm:
        -     train(model, optimizer, scaler, loader)
        +     train(model, optimizer, loader)
        - rounds(model, optimizer, scaler, loader)
        + rounds(model, optimizer, loader)
        """,
        dtype="bf16",
    )


def test_keyword_argument(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, loader, scaler=None):
        + def train(model, optimizer, loader):
              for x, y in loader:
        ~         with torch.cuda.amp.autocast():
                      loss = model(x, y)
        -         scaler.scale(loss).backward()
        -         scaler.step(optimizer)
        -         scaler.update()
        - scaler = torch.cuda.amp.GradScaler()
        - train(model, optimizer, loader, scaler=scaler)
        +         loss.backward()
        +         optimizer.step()
        + train(model, optimizer, loader)
        """,
        dtype="bf16",
    )


def test_attribute_that_is_handed_in(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
        -     def __init__(self, scaler):
        -         self.scaler = scaler
        +     def __init__(self):
        +         pass

              def step(self, x):
        ~         with torch.cuda.amp.autocast():
                      loss = self.model(x)
        -         self.scaler.scale(loss).backward()
        -         self.scaler.step(self.optimizer)
        -         self.scaler.update()
        +         loss.backward()
        +         self.optimizer.step()

        - scaler = torch.cuda.amp.GradScaler()
        - trainer = Trainer(scaler)
        + trainer = Trainer()
        """,
        dtype="bf16",
    )


def test_checkpoint_entry_and_restoring(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
        -     scaler.scale(loss).backward()
        -     scaler.step(optimizer)
        -     scaler.update()
        - torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "x.pt")
        - if "scaler" in checkpoint:
        -     scaler.load_state_dict(checkpoint["scaler"])
        +     loss.backward()
        +     optimizer.step()
        + torch.save({"model": model.state_dict()}, "x.pt")
        """,
        dtype="bf16",
    )


def test_scaled_expression(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
        - with torch.cuda.amp.autocast():
        -     total = scaler.scale(a + b)
        + with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +     total = a + b
          total.backward()
        - scaler.step(optimizer)
        - scaler.update()
        + optimizer.step()
        """,
        dtype="bf16",
    )


def test_function_that_sees_the_scaler_of_the_module(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()

          def step(x):
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
        ~     SCALED_STEP
        """,
        dtype="bf16",
    )


def test_unscaling_in_a_branch_leaves_the_clipping(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
        -     scaler.scale(loss).backward()
        +     loss.backward()
              if args.clip:
        -         scaler.unscale_(optimizer)
                  torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -     scaler.step(optimizer)
        -     scaler.update()
        +     optimizer.step()
        """,
        dtype="bf16",
    )


def test_update_in_a_branch_of_its_own(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
          for i, x in enumerate(loader):
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
        -     scaler.scale(loss).backward()
        +     loss.backward()
              if i % 4 == 0:
        -         scaler.step(optimizer)
        -     if i % 4 == 0:
        -         scaler.update()
        +         optimizer.step()
        """,
        dtype="bf16",
    )


def test_a_branch_that_does_nothing_but_update_goes(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
          for i, x in enumerate(loader):
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
        -     scaler.scale(loss).backward()
        -     scaler.step(optimizer)
        +     loss.backward()
        +     optimizer.step()
              if i % 10 == 0:
                  print(loss.item())
        -         scaler.update()
        -     elif i % 10 == 1:
        -         scaler.update()
        """,
        dtype="bf16",
    )


def test_native_region_moves_with_its_scaler(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     with torch.amp.autocast("cuda", dtype=torch.float16):
        +     with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                  loss = model(x)
        ~     SCALED_STEP
        """,
        dtype="bf16",
    )


def test_native_region_without_a_dtype_moves_with_its_scaler(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     with torch.autocast("cuda"):
        +     with torch.autocast("cuda", dtype=torch.bfloat16):
                  loss = model(x)
        ~     SCALED_STEP
        """,
        dtype="bf16",
    )


def test_parameter_in_another_file(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "train.py": """
                  import torch
                - from torch.cuda.amp import GradScaler
                  from engine import train
                - scaler = GradScaler()
                - train(model, optimizer, scaler, loader)
                + train(model, optimizer, loader)
                """,
            "engine.py": """
                  import torch
                - def train(model, optimizer, scaler, loader):
                + def train(model, optimizer, loader):
                      for x in loader:
                ~         with torch.cuda.amp.autocast():
                              loss = model(x)
                ~         SCALED_STEP
                """,
        },
        dtype="bf16",
    )


def test_attribute_that_a_derived_class_of_another_file_uses(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "base.py": """
              import torch

              class Trainer:
                  def __init__(self, model):
                      self.model = model
            -         self.scaler = torch.cuda.amp.GradScaler()

                  def step(self, x):
            -         with torch.cuda.amp.autocast():
            +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                          loss = self.model(x)
            -         self.scaler.scale(loss).backward()
            -         self.scaler.step(self.optimizer)
            -         self.scaler.update()
            +         loss.backward()
            +         self.optimizer.step()
            """,
            "derived.py": """
              import torch
              from base import Trainer

              class Sums(Trainer):
                  def save(self):
                      state = {"model": self.model.state_dict()}
            -         state["scaler"] = self.scaler.state_dict()
                      torch.save(state, "x.pt")

              class Others:
                  def fit(self, x):
                      return self.scaler.transform(x)
            """,
        },
        "bf16",
    )


TRAINER = """
      import torch

      class Trainer:
          def __init__(self, model, optimizer):
              self.model, self.optimizer = model, optimizer
    -         self.scaler = torch.cuda.amp.GradScaler()

          def step(self, x):
    ~         with torch.cuda.amp.autocast():
                  loss = self.model(x)
    -         self.scaler.scale(loss).backward()
    -         self.scaler.step(self.optimizer)
    -         self.scaler.update()
    +         loss.backward()
    +         self.optimizer.step()
"""


def test_attribute_that_another_file_uses(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "main.py": """
                  import torch
                  from trainer import Trainer

                  trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
                  for x in loader:
                      trainer.step(x)
                - made = trainer.scaler
                - torch.save({"model": model.state_dict(), "scaler": made.state_dict()}, "last.pth")
                + torch.save({"model": model.state_dict()}, "last.pth")
            """,
            "trainer.py": TRAINER,
        },
        dtype="bf16",
    )


def test_import_of_the_scaler_alone_goes(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda.amp import GradScaler
        - scaler = GradScaler()
        ~ with torch.cuda.amp.autocast():
              loss = model(x)
        ~ SCALED_STEP
        """,
        dtype="bf16",
        head="",
    )


def test_import_of_the_scaler_goes_from_a_list(rewrites: Check) -> None:
    rewrites(
        """
          import torch
        - from torch.cuda.amp import GradScaler, autocast
        - scaler = GradScaler()
        - with autocast():
        + from torch.amp import autocast
        + with autocast(device_type="cuda", dtype=torch.bfloat16):
              loss = model(x)
        ~ SCALED_STEP
        """,
        dtype="bf16",
        head="",
    )


def test_region_without_a_scaler_moves(rewrites: Check) -> None:
    rewrites(
        """
        - with torch.autocast("cuda", dtype=torch.float16):
        + with torch.autocast("cuda", dtype=torch.bfloat16):
              out = model(x)
        """,
        dtype="bf16",
    )


def test_scaler_found_at_run_time_never_leaves_a_float16_region_alone(migrate: Check) -> None:
    plan = migrate(
        """
        scaler = torch.cuda.amp.GradScaler()
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        dtype="auto",
    )
    assert ("enabled=amp_dtype ==" in plan.after) == ("dtype=amp_dtype)" in plan.after)


def test_scaler_found_at_run_time_keeps_the_users_switch(migrate: Check) -> None:
    plan = migrate(
        """
        scaler = torch.cuda.amp.GradScaler(enabled=a or b)
        with torch.cuda.amp.autocast(enabled=a or b):
            loss = model(x)
        scaler.scale(loss).backward()
        """,
        dtype="auto",
    )
    assert 'torch.amp.GradScaler("cuda", enabled=(a or b) and amp_dtype == torch.float16)' in plan.after
    assert 'torch.amp.autocast(device_type="cuda", dtype=amp_dtype, enabled=a or b)' in plan.after


def test_by_the_shortest_of_its_names(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.GradScaler("cuda")
          for x, y in loader:
              optimizer.zero_grad()
        -     with torch.autocast("cuda", dtype=torch.float16):
        +     with torch.autocast("cuda", dtype=torch.bfloat16):
                  loss = model(x, y)
        -     scaler.scale(loss).backward()
        -     scaler.step(optimizer)
        -     scaler.update()
        +     loss.backward()
        +     optimizer.step()
        """,
        dtype="bf16",
    )
