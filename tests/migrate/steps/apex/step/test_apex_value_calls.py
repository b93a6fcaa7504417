"""Apex steps whose parts are called through a value: a method that was chosen, a callback, a partial, an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCALED_BACK = """
  def scaled_back(loss, optimizer):
      with amp.scale_loss(loss, optimizer) as scaled:
          scaled.backward()
"""


def test_method_that_a_flag_chooses(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, model, args):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
                  if args.fp16:
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                      self.go_back = self.back_by_amp
                  else:
                      self.go_back = self.back

              def back_by_amp(self, loss):
        -         with amp.scale_loss(loss, self.optimizer) as scaled:
        -             scaled.backward()
        +         self.scaler.scale(loss).backward()

              def back(self, loss):
        -         loss.backward()
        +         self.scaler.scale(loss).backward()

              def step(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(self.model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
                  self.go_back(loss)
        -         self.optimizer.step()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


TRAINER = """
      from apex import amp

      class Warmup:
          def __init__(self, optimizer):
              self.optimizer = optimizer

          def step(self):
              self.optimizer.param_groups[0]["lr"] *= 2

      class Trainer:
          def __init__(self, model, args):
              self.model, self.args = model, args
              self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              if args.fp16:
                  self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
              self.schedule = Warmup(self.optimizer)

          def backward(self, loss):
              if self.args.fp16:
                  with amp.scale_loss(loss, self.optimizer) as scaled:
                      scaled.backward()
              else:
                  loss.backward()

          def step(self):
              self.optimizer.step()
              self.schedule.step()
              self.optimizer.zero_grad()
"""
INSIDE = """
          def train(self, loader):
              for x, y in loader:
                  loss = nn.functional.mse_loss(self.model(x), y)
                  self.backward(loss)
                  self.step()
"""
OUTSIDE = """
      def main(loader, model, args):
          trainer = Trainer(model, args)
          for x, y in loader:
              loss = nn.functional.mse_loss(trainer.model(x), y)
              trainer.backward(loss)
              trainer.step()
"""


def test_object_with_a_backward_and_a_step(migrate: Check) -> None:
    after = migrate(TRAINER + INSIDE).after
    assert "apex" not in after
    assert "        self.scaler.step(self.optimizer)\n        self.schedule.step()\n" in after
    assert "            self.backward(loss)\n            self.step()\n            self.scaler.update()\n" in after
    after = migrate(TRAINER + OUTSIDE).after
    assert "    def step(self, scaler):\n        scaler.step(self.optimizer)\n        self.schedule.step()\n" in after
    assert "        trainer.step(scaler)\n        scaler.update()\n" in after


@pytest.mark.parametrize(
    "doubt",
    [
        "          for each in found():\n              each.step()\n",
        "          run(Trainer(*trainer).step)\n",
        "          trainer.step()\n",
    ],
)
def test_a_step_that_is_called_elsewhere_leaves_all_on_the_shim(doubt: str, migrate: Check) -> None:
    after = migrate(f"{TRAINER}{OUTSIDE}\n      def more(trainer, run):\n{doubt}").after
    assert "from amp_shim import amp" in after
    assert "GradScaler" not in after


def test_callback_that_another_file_brings(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "loop.py": """
            + import torch
              from torch.nn.functional import mse_loss as mse

              class Loop:
                  def __init__(self, model, optimizer, back):
                      self.model, self.optimizer, self.back = model, optimizer, back
            +         self.scaler = torch.amp.GradScaler("cuda")
                  def run(self, x, y):
            -         loss = mse(self.model(x), y)
            +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +             loss = mse(self.model(x), y)
                      self.optimizer.zero_grad()
            -         self.back(loss, self.optimizer)
            -         self.optimizer.step()
            +         self.back(loss, self.optimizer, self.scaler)
            +         self.scaler.step(self.optimizer)
            +         self.scaler.update()
            """,
            "train.py": """
              import torch
              from torch import nn
            - from apex import amp
              from loop import Loop

            - def scaled_back(loss, optimizer):
            -     with amp.scale_loss(loss, optimizer) as scaled:
            -         scaled.backward()
            + def scaled_back(loss, optimizer, scaler):
            +     scaler.scale(loss).backward()

              def main(loader, args):
                  model = nn.Linear(2, 2).cuda()
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            -     model, optimizer = amp.initialize(model, optimizer)
                  Loop(model, optimizer, scaled_back).run(*loader)
            """,
        }
    )


def test_partial_that_fills_the_first_parameters(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          from functools import partial

        - def go_back(fp16, loss, optimizer, **kwargs):
        -     if fp16:
        -         with amp.scale_loss(loss, optimizer) as scaled:
        -             scaled.backward(**kwargs)
        -     else:
        -         loss.backward(**kwargs)
        + def go_back(fp16, loss, optimizer, scaler, **kwargs):
        +     scaler.scale(loss).backward(**kwargs)

          def main(args):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              back = partial(go_back, args.fp16)
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         back(loss, optimizer)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         back(loss, optimizer, scaler)
        ~         optimizer.step()
        """
    )


def test_functions_of_which_one_is_chosen_see_the_scaler_around_them(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def main(args):
              MODEL
        -     model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")

              def scaled_back(loss):
        -         with amp.scale_loss(loss, optimizer) as scaled:
        -             scaled.backward()
        +         scaler.scale(loss).backward()

              def plain_back(loss):
        -         loss.backward()
        +         scaler.scale(loss).backward()

              back = scaled_back if args.fp16 else plain_back
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
                  back(loss)
        ~         optimizer.step()
        """
    )


def test_objects_that_step_each_in_its_way(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class PlainWay:
        -     def step(self, loss, optimizer, scheduler):
        -         loss.backward()
        -         optimizer.step()
        +     def step(self, loss, optimizer, scaler, scheduler):
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  scheduler.step()

          class AmpWay:
        -     def step(self, loss, optimizer, scheduler):
        -         with amp.scale_loss(loss, optimizer) as scaled:
        -             scaled.backward()
        -         optimizer.step()
        +     def step(self, loss, optimizer, scaler, scheduler):
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
                  scheduler.step()

          class Trainer:
              def __init__(self, model, math):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        +         amp_enabled = not (math == "fp32") and math == "amp"
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
                  if math == "fp32":
                      self.way = PlainWay()
                  elif math == "amp":
        -             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                      self.way = AmpWay()

              def turn(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         self.way.step(loss, self.optimizer, self.scheduler)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.way.step(loss, self.optimizer, self.scaler, self.scheduler)
        """
    )


def test_object_that_is_called(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Back:
        -     def __call__(self, loss, optimizer):
        -         with amp.scale_loss(loss, optimizer) as scaled:
        -             scaled.backward()
        +     def __call__(self, loss, optimizer, scaler):
        +         scaler.scale(loss).backward()

          def main(args):
              MODEL
              back = None
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
                  back = Back()
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = nn.functional.mse_loss(model(x), y)
                  if back is not None:
        -             back(loss, optimizer)
        +             back(loss, optimizer, scaler)
                  else:
        -             loss.backward()
        +             scaler.scale(loss).backward()
        ~         optimizer.step()
        """
    )


LOOP = """
def main(loader, args):
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer)
    BACK
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        back(loss, optimizer)
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("back", "others", "reason"),
    [
        # What nobody knows may be called in its place, or may call it.
        ("back = args.back or scaled_back", "", "not every call of scaled_back() can be seen"),
        ("back = scaled_back\n    register(scaled_back)", "from elsewhere import register", "not every call of"),
        ("back = partial(scaled_back, optimizer=optimizer)", "from functools import partial", "not every call of"),
        # Another that may be called is no part of a step, or another part of it.
        ("back = scaled_back if args.fp16 else print", "", "not every call of scaled_back() can be seen"),
        ("back = scaled_back if args.fp16 else wait", "def wait(loss, optimizer):\n    pass", "does not go backward"),
        (
            "back = scaled_back if args.fp16 else whole",
            "def whole(loss, optimizer):\n    loss.backward()\n    optimizer.step()",
            "of the functions that `back(loss, optimizer)` may run, one computes the loss or steps",
        ),
        (
            "back = scaled_back if args.fp16 else native",
            "def native(loss, optimizer):\n    scaler.scale(loss).backward()",
            "Apex and native AMP stand side by side",
        ),
    ],
)
def test_call_of_which_something_is_in_doubt_leaves_the_step_on_the_shim(
    back: str, others: str, reason: str, migrate: Check
) -> None:
    scaled = SCALED_BACK.replace("\n  ", "\n")
    text = f"import torch\nfrom torch import nn\nfrom apex import amp\n{others}\n{scaled}{LOOP.replace('BACK', back)}"
    plan = migrate(text)
    assert "from amp_shim import amp\n" in plan.after
    assert "autocast" not in plan.after
    told = [finding for finding in plan.findings if finding.code == "AMP290"]
    assert any(reason in f"{finding.message} {finding.hint}" for finding in told), told


def test_functions_by_one_name_of_which_one_is_handed_back(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def choose(mixed):
              if mixed:
        -         def backward(loss, optimizer):
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        +         def backward(loss, optimizer, scaler):
        +             scaler.scale(loss).backward()
              else:
        -         def backward(loss, optimizer):
        -             loss.backward()
        +         def backward(loss, optimizer, scaler):
        +             scaler.scale(loss).backward()
              return backward
          def main(args, loader):
              MODEL
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
              backward = choose(args.fp16)
              for x in loader:
        -         loss = model(x).mean()
        -         backward(loss, optimizer)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
        +             loss = model(x).mean()
        +         backward(loss, optimizer, scaler)
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )
