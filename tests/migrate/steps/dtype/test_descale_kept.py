"""Scalers that stay when float16 becomes bfloat16: switched off, or as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]


def test_scale_that_is_read_keeps_a_scaler_switched_off(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
        + scaler = torch.amp.GradScaler("cuda", enabled=False)
          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
              print(scaler.get_scale())
        """,
        dtype="bf16",
    )


def test_scale_that_is_compared_keeps_a_scaler_switched_off(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler()
        + scaler = torch.amp.GradScaler("cuda", enabled=False)
          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
              scale = scaler.get_scale()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
              if scale <= scaler.get_scale():
                  scheduler.step()
        """,
        dtype="bf16",
    )


TRAINER = """
      import torch

      class Trainer:
          def __init__(self, model, optimizer):
              self.model, self.optimizer = model, optimizer
    -         self.scaler = torch.cuda.amp.GradScaler()
    +         self.scaler = torch.amp.GradScaler("cuda", enabled=False)

          def step(self, x):
    ~         with torch.cuda.amp.autocast():
                  loss = self.model(x)
              self.scaler.scale(loss).backward()
              self.scaler.step(self.optimizer)
              self.scaler.update()
"""
MAIN = """
      import torch
      from trainer import Trainer

      trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
      for x in loader:
          trainer.step(x)
"""


@pytest.mark.parametrize(
    "use",
    [
        "      print(trainer.scaler.get_scale())",
        "      getattr(trainer, 'scaler').update()",
        "      def resume(any, path):\n          any.scaler.load_state_dict(torch.load(path))",
        "      def unused():\n          return\n          trainer.scaler.update()",
    ],
)
def test_scaler_whose_use_in_another_file_is_not_understood_is_switched_off(use: str, rewrites_files: Check) -> None:
    rewrites_files({"main.py": f"{MAIN}\n{use}\n", "trainer.py": TRAINER}, dtype="bf16")


def test_scaler_that_another_file_imports_is_switched_off(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "main.py": """
                  import torch
                  from shared import scaler

                  for x in loader:
                ~     with torch.cuda.amp.autocast():
                          loss = model(x)
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
            """,
            "shared.py": """
                  import torch

                - scaler = torch.cuda.amp.GradScaler()
                + scaler = torch.amp.GradScaler("cuda", enabled=False)
            """,
        },
        dtype="bf16",
    )


def test_scaler_that_may_be_none_is_switched_off(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        - scaler = torch.cuda.amp.GradScaler() if args.amp else None
        + scaler = torch.amp.GradScaler("cuda", enabled=False) if args.amp else None
          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
        dtype="bf16",
    )


def test_scaler_tested_for_none_is_switched_off(rewrites: Check) -> None:
    rewrites(
        """
          def train(model, optimizer, loader, scaler=None):
              for x, y in loader:
        -         with torch.cuda.amp.autocast(enabled=scaler is not None):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16, enabled=scaler is not None):
                      loss = model(x, y)
                  if scaler is not None:
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
                  else:
                      STEP
        - scaler = torch.cuda.amp.GradScaler() if args.amp else None
        + scaler = torch.amp.GradScaler("cuda", enabled=False) if args.amp else None
          train(model, optimizer, loader, scaler)
        """,
        dtype="bf16",
    )


def test_scaler_made_in_an_argument_is_switched_off(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, scaler):
                  self.scaler = scaler

              def step(self, x):
        ~         with torch.cuda.amp.autocast():
                      loss = self.model(x)
                  self.scaler.scale(loss).backward()
                  self.scaler.step(self.optimizer)
                  self.scaler.update()

        - trainer = Trainer(torch.cuda.amp.GradScaler())
        + trainer = Trainer(torch.amp.GradScaler("cuda", enabled=False))
        """,
        dtype="bf16",
    )


@pytest.mark.parametrize("target", ['scalers["main"]', "first = second"])
def test_scaler_that_has_no_name_of_its_own_is_switched_off(migrate: Check, target: str) -> None:
    plan = migrate(
        f"""
        {target} = torch.cuda.amp.GradScaler()
        for x in loader:
            with torch.cuda.amp.autocast():
                loss = model(x)
        """,
        dtype="bf16",
    )
    assert f'{target} = torch.amp.GradScaler("cuda", enabled=False)\n' in plan.after


def test_scaler_of_unknown_class_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
          def train(model, optimizer, loss_scaler, loader):
              for x in loader:
        ~         with torch.cuda.amp.autocast():
                      loss = model(x)
                  loss_scaler(loss, optimizer)
        """,
        dtype="bf16",
    )


def test_scaler_of_data_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          scaler = StandardScaler()
          x = scaler.scale(x)
        ~ with torch.cuda.amp.autocast():
              loss = model(x)
        """,
        dtype="bf16",
    )


def test_imported_scaler_is_left_as_it_was(rewrites: Check) -> None:
    rewrites(
        """
          from .utils import scaler

          for x in loader:
        ~     with torch.cuda.amp.autocast():
                  loss = model(x)
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
        dtype="bf16",
    )


def test_scaler_beside_one_that_nothing_in_sight_makes_is_switched_off(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "other.py": """
                  import torch
                  from steps import step
                  from settings import *

                  def main():
                      global scaler
                      step(net, opt, scaler, x)
            """,
            "steps.py": """
                  import torch

                  def step(model, optimizer, scaler, x):
                ~     with torch.cuda.amp.autocast():
                          loss = model(x).mean()
                      scaler.scale(loss).backward()
                      scaler.step(optimizer)
                      scaler.update()
            """,
            "train.py": """
                  import torch
                  from steps import step

                - scaler = torch.cuda.amp.GradScaler()
                + scaler = torch.amp.GradScaler("cuda", enabled=False)
                  step(model, optimizer, scaler, x)
            """,
        },
        dtype="bf16",
    )


def test_region_whose_dtype_is_a_variable_keeps_its_scaler(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        scaler = torch.amp.GradScaler("cuda")
        for x in loader:
            with torch.autocast("cuda", dtype=dtype):
                loss = model(x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        "float16 stays",
        dtype="bf16",
    )


def test_bfloat16_region_is_left_as_it_was(ignores: Check) -> None:
    ignores(
        """
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x)
        loss.backward()
        """,
        dtype="bf16",
    )


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
@pytest.mark.parametrize(
    "made",
    [
        "autocast = torch.amp.autocast if newer else torch.cuda.amp.autocast",
        "class autocast(torch.cuda.amp.autocast):\n    pass",
        "autocast = run(torch.cuda.amp.autocast)",
    ],
)
def test_region_whose_old_name_stays_keeps_its_scaler(migrate: Check, made: str, dtype: str) -> None:
    step = "with autocast():\n    loss = f(x)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()\n"
    plan = migrate(f"{made}\nscaler = torch.cuda.amp.GradScaler()\n{step}", dtype)
    assert plan.after.endswith(f'{made}\nscaler = torch.amp.GradScaler("cuda")\n{step}')
    assert ["float16 stays" in each.message for each in plan.findings if each.code == "AMP510"] == [True]


def test_old_name_that_is_only_a_type_keeps_no_scaler(rewrites: Check) -> None:
    rewrites(
        """
        - def is_region(x: torch.cuda.amp.autocast):
        -     return isinstance(x, torch.cuda.amp.autocast)
        + def is_region(x: torch.amp.autocast):
        +     return isinstance(x, torch.amp.autocast)

        - scaler = torch.cuda.amp.GradScaler()
        ~ with torch.cuda.amp.autocast():
              loss = model(x)
        ~ SCALED_STEP
        """,
        dtype="bf16",
    )


def test_scaler_stays_on_where_only_another_script_has_a_region(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "main.py": """
                  import torch
                  import datasets

                  for x in datasets.load():
                ~     with torch.cuda.amp.autocast():
                          loss = model(x)
            """,
            "datasets.py": "def load(): ...",
            "finetune/run.py": """
                from datasets import load
                from engine import train_one_epoch
                from utils import Scaler

                train_one_epoch(load(), Scaler())
            """,
            "finetune/utils.py": """
                  import torch

                  class Scaler:
                      def __init__(self):
                -         self._scaler = torch.cuda.amp.GradScaler()
                +         self._scaler = torch.amp.GradScaler("cuda")

                      def __call__(self, loss, optimizer):
                          self._scaler.scale(loss).backward()
                          self._scaler.step(optimizer)
                          self._scaler.update()
            """,
        },
        dtype="bf16",
    )
    assert [each.path.rpartition("/")[2] for each in findings if "GradScaler stays on" in each.message] == ["utils.py"]


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_scale_that_is_read_from_the_state_of_a_scaler_is_one_where_that_is_off(migrate: Check, dtype: str) -> None:
    text = """
class Scaler:
    def __init__(self):
        self._scaler = torch.cuda.amp.GradScaler()
    def __call__(self, loss, optimizer):
        self._scaler.scale(loss).backward()
        self._scaler.step(optimizer)
        self._scaler.update()
    def state_dict(self):
        return self._scaler.state_dict()
scaler = Scaler()
for x in loader:
    with torch.cuda.amp.autocast():
        loss = model(x)
    scaler(loss, optimizer)
    log(scaler.state_dict()["scale"])
state = model.state_dict()["head"]
"""
    after = migrate(text, dtype).after
    assert 'log(scaler.state_dict().get("scale", 1.0))' in after
    assert 'model.state_dict()["head"]' in after
    assert torch.amp.GradScaler("cpu", enabled=False).state_dict().get("scale", 1.0) == 1.0


def test_scale_that_is_read_from_the_state_stays_in_float16(migrate: Check) -> None:
    text = """
scaler = torch.cuda.amp.GradScaler()
with torch.cuda.amp.autocast():
    loss = model(x)
scaler.scale(loss).backward()
log(scaler.state_dict()["scale"])
"""
    assert 'log(scaler.state_dict()["scale"])' in migrate(text).after


def test_region_of_float32_decides_about_no_scaler(migrate: Check) -> None:
    text = """
@torch.cuda.amp.autocast(dtype=torch.float32)
def criterion(out, y):
    return (out - y).pow(2).mean()
with torch.cuda.amp.autocast():
    out = model(x)
"""
    plan = migrate(text, "bf16")
    assert 'with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):' in plan.after
    assert '@torch.amp.autocast(device_type="cuda", dtype=torch.float32)' in plan.after
    assert [each.code for each in plan.findings] == ["AMP101", "AMP101"]


@pytest.mark.parametrize("dtype", ["bf16", "auto"])
def test_scaler_whose_arguments_are_starred_stays_on(migrate: Check, dtype: str) -> None:
    text = """
scaler = torch.cuda.amp.GradScaler(**config) if config else None
with torch.cuda.amp.autocast():
    loss = model(x)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""
    plan = migrate(text, dtype)
    assert 'scaler = torch.amp.GradScaler("cuda", **config) if config else None' in plan.after
    assert any("are starred, and may say whether it is on" in each.message for each in plan.findings)


def test_scaler_with_an_argument_a_line_is_switched_off_in_one_of_its_own(rewrites: Check) -> None:
    rewrites(
        """
        - scaler = torch.cuda.amp.GradScaler(
        + scaler = torch.amp.GradScaler(
        +     "cuda",
              init_scale=1,
              growth_interval=1,
        +     enabled=False,
          )
        ~ with torch.cuda.amp.autocast():
              loss = model(x)
          scaler.scale(loss).backward()
          scaler.step(optimizer)
          scaler.update()
          print(scaler.get_scale())
        """,
        dtype="bf16",
    )
