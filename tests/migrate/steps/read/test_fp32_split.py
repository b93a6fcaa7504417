"""Steps that are spread over functions move in all of them, or in none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings
from amp_migrate.steps.read import value_calls

Check = Callable[..., Any]


def test_helper_that_goes_backward_for_the_loop_that_steps(rewrites: Check) -> None:
    rewrites(
        """
        - def accumulate(model, x, y):
        + def accumulate(model, x, y, scaler):
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()

          def main():
        ~     MODEL
              for x, y in loader:
        -         accumulate(model, x, y)
        +         accumulate(model, x, y, scaler)
        ~         optimizer.step()
                  optimizer.zero_grad()
        """
    )


def test_helper_that_goes_backward_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          def accumulate(model, x, y):
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         loss = nn.functional.mse_loss(model(x), y)
              loss.backward()

          def main():
              MODEL
              for x, y in loader:
                  accumulate(model, x, y)
                  optimizer.step()
                  optimizer.zero_grad()
        """,
        "bf16",
    )


def test_helper_that_takes_the_loss_and_steps(rewrites: Check) -> None:
    rewrites(
        """
        - def step(loss, optimizer):
        + def step(loss, optimizer, scaler):
              optimizer.zero_grad()
        ~     STEP

          def main():
        ~     MODEL
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        -         step(loss, optimizer)
        +         step(loss, optimizer, scaler)
        """
    )


def test_helper_that_takes_the_loss_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          def step(loss, optimizer):
              optimizer.zero_grad()
              STEP

          def main():
              MODEL
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +             loss = nn.functional.mse_loss(model(x), y)
                  step(loss, optimizer)
        """,
        "bf16",
    )


GAN = """
  class Gan:
      def __init__(self):
          self.netG = nn.Linear(2, 2)
          self.netD = nn.Linear(2, 2)
          self.criterion = nn.MSELoss()
          self.optimizer_G = torch.optim.SGD(self.netG.parameters(), lr=0.1)
          self.optimizer_D = torch.optim.SGD(self.netD.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")

      def forward(self):
          self.fake = self.netG(self.input)

      def backward_D_basic(self, net, real, fake):
~         loss = self.criterion(net(real), 1) + self.criterion(net(fake.detach()), 0)
-         loss.backward()
+         self.scaler.scale(loss).backward()
          return loss

      def backward_D(self):
          self.loss_D = self.backward_D_basic(self.netD, self.real, self.fake)

      def backward_G(self):
~         self.loss_G = self.criterion(self.fake, self.real)
-         self.loss_G.backward()
+         self.scaler.scale(self.loss_G).backward()

      def optimize_parameters(self):
~         self.forward()
          self.optimizer_D.zero_grad()
          self.backward_D()
-         self.optimizer_D.step()
+         self.scaler.step(self.optimizer_D)
          self.optimizer_G.zero_grad()
          self.backward_G()
-         self.optimizer_G.step()
+         self.scaler.step(self.optimizer_G)
+         self.scaler.update()
"""


def test_methods_of_one_trainer_share_its_scaler(rewrites: Check) -> None:
    rewrites(GAN)


CALLED_BACKWARD = """
  class Trainer:
      def __init__(self):
          self.net = nn.Linear(2, 2)
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")

      def forward(self):
          self.output = self.net(self.input)

      def backward(self):
~         self.loss = nn.functional.mse_loss(self.output, self.target)
-         self.loss.backward()
+         self.scaler.scale(self.loss).backward()

      def optimize(self):
~         self.forward()
          self.optimizer.zero_grad()
          self.backward()
-         self.optimizer.step()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""


def test_method_that_is_called_backward(rewrites: Check) -> None:
    rewrites(CALLED_BACKWARD)


@pytest.mark.parametrize(
    "loss",
    [
        "nn.functional.mse_loss(self.output, self.target)",
        "2 * self.criterion(self.output, self.target)",
        "self.criterion(self.output, self.target).sum()",
        "self.criterion(self.output, self.target) if self.target is not None else self.output.mean() + 1",
    ],
)
def test_method_called_backward_in_a_program_that_is_too_large_is_not_that_of_a_loss(
    rewrites: Check, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setattr(value_calls._Calls, "is_complete", False)
    made = "      def __init__(self):\n          self.criterion = nn.L1Loss().cuda()\n"
    diff = CALLED_BACKWARD.replace("      def __init__(self):\n", made)
    rewrites(diff.replace("nn.functional.mse_loss(self.output, self.target)", loss))


@pytest.mark.parametrize(
    ("loss", "beside"),
    [
        ("self.judge(self.output)", ""),
        ("2 * self.output", "def __rmul__(self, other):\n            return self"),
    ],
)
def test_method_called_backward_in_a_program_that_is_too_large_may_be_that_of_what_is_unknown(
    leaves: Check, monkeypatch: pytest.MonkeyPatch, loss: str, beside: str
) -> None:
    monkeypatch.setattr(value_calls._Calls, "is_complete", False)
    lines = [each[2:] for each in CALLED_BACKWARD.splitlines() if not each.startswith("+")]
    text = "\n".join([*lines, f"    {beside}"]).replace("nn.functional.mse_loss(self.output, self.target)", loss)
    leaves(text, "the forward pass behind `self.loss` ")


def test_functions_beside_the_loop_see_its_scaler(rewrites: Check) -> None:
    rewrites(
        """
          net = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

          def forward_pass(batch):
              return net(batch[0]), batch[1]

          def backward_pass(pred, y):
        ~     loss = nn.functional.mse_loss(pred, y)
        ~     loss.backward()
              return loss

          for batch in loader:
              optimizer.zero_grad()
        ~     pred, y = forward_pass(batch)
              loss = backward_pass(pred, y)
        ~     optimizer.step()
        """
    )


def test_wrapper_whose_method_steps(rewrites: Check) -> None:
    rewrites(
        """
          class ScheduledOptim:
              def __init__(self, optimizer):
                  self._optimizer = optimizer
                  self.n_steps = 0

        -     def step_and_update_lr(self):
        +     def step_and_update_lr(self, scaler):
                  self.n_steps += 1
        -         self._optimizer.step()
        +         scaler.step(self._optimizer)

              def zero_grad(self):
                  self._optimizer.zero_grad()

        - def train(model, loader, optimizer):
        + def train(model, loader, optimizer, scaler):
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         loss.backward()
        -         optimizer.step_and_update_lr()
        +         optimizer.step_and_update_lr(scaler)
        +         scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = ScheduledOptim(torch.optim.SGD(model.parameters(), lr=0.1))
        -     train(model, load(), optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, load(), optimizer, scaler)
        """
    )


def test_gradients_are_unscaled_for_the_optimizer_in_a_wrapper(rewrites: Check) -> None:
    rewrites(
        """
          class Scheduled:
              def __init__(self, model):
                  self.inner = torch.optim.Adam(model.parameters())
        -     def step_and_update_lr(self):
        +     def step_and_update_lr(self, scaler):
                  self.warm += 1
        -         self.inner.step()
        +         scaler.step(self.inner)
              def zero_grad(self):
                  self.inner.zero_grad()
          def train(loader):
              model = nn.Linear(2, 2).cuda()
        ~     optimizer = Scheduled(model)
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         loss.backward()
        +         scaler.unscale_(optimizer.inner)
                  nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        -         optimizer.step_and_update_lr()
        +         optimizer.step_and_update_lr(scaler)
        +         scaler.update()
        """
    )


def test_gradients_that_a_wrapper_steps_by_several_optimizers_are_not_read(leaves: Check) -> None:
    leaves(
        """
        class Several:
            def __init__(self, model):
                self.optimizers = [torch.optim.Adam(model.parameters())]
            def step_all(self):
                for optimizer in self.optimizers:
                    optimizer.step()
        def train(loader):
            model = nn.Linear(2, 2)
            several = Several(model)
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                model.weight.grad.clamp_(-1, 1)
                several.step_all()
        """,
        "gradients are read that several.step_all() steps by optimizers of its own",
    )


def test_wrapper_whose_method_steps_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          class ScheduledOptim:
              def __init__(self, optimizer):
                  self._optimizer = optimizer

              def step_and_update_lr(self):
                  self._optimizer.step()

          def train(model, loader, optimizer):
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +             loss = nn.functional.mse_loss(model(x), y)
                  loss.backward()
                  optimizer.step_and_update_lr()
        """,
        "bf16",
    )


def test_wrapper_in_another_file(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "optim.py": """
                  class ScheduledOptim:
                      def __init__(self, optimizer):
                          self.optimizer = optimizer

                -     def step_and_update(self):
                +     def step_and_update(self, scaler):
                -         self.optimizer.step()
                +         scaler.step(self.optimizer)
                          self.optimizer.zero_grad()
            """,
            "train.py": """
                  import torch
                  from torch import nn
                  from optim import ScheduledOptim

                  model = nn.Linear(2, 2)
                  schedule = ScheduledOptim(torch.optim.SGD(model.parameters(), lr=0.1))
                + scaler = torch.amp.GradScaler("cuda")
                  for x, y in loader:
                ~     loss = nn.functional.mse_loss(model(x), y)
                ~     loss.backward()
                -     schedule.step_and_update()
                +     schedule.step_and_update(scaler)
                +     scaler.update()
            """,
        }
    )


def test_function_that_steps_and_is_imported_by_another_name(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "updates.py": """
                - def apply_gradients(optimizer):
                + def apply_gradients(optimizer, scaler):
                -     optimizer.step()
                +     scaler.step(optimizer)
                      optimizer.zero_grad()
            """,
            "train.py": """
                  import torch
                  from torch import nn
                  from updates import apply_gradients as finish

                  model = nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                + scaler = torch.amp.GradScaler("cuda")
                  for x, y in loader:
                ~     loss = nn.functional.mse_loss(model(x), y)
                ~     loss.backward()
                -     finish(optimizer)
                +     finish(optimizer, scaler)
                +     scaler.update()
            """,
        }
    )


def test_backward_of_a_method_that_is_chosen(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model, args):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.go_back = self.twice if args.twice else self.once

              def once(self, loss):
        -         loss.backward()
        +         self.scaler.scale(loss).backward()

              def twice(self, loss):
        -         (2 * loss).backward()
        +         self.scaler.scale(2 * loss).backward()

              def step(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
                  self.go_back(loss)
        -         self.optimizer.step()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_backward_in_a_class_that_another_file_derives_from(rewrites_files: Check) -> None:
    """Another class has a method of that name, too: only values tell what `self.update(loss)` runs."""
    rewrites_files(
        {
            "base.py": """
                  import torch

                  class Base:
                      def __init__(self, model):
                          self.model = model
                          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                +         self.scaler = torch.amp.GradScaler("cuda")

                      def update(self, loss):
                          self.optimizer.zero_grad()
                -         loss.backward()
                -         self.optimizer.step()
                +         self.scaler.scale(loss).backward()
                +         self.scaler.step(self.optimizer)
                +         self.scaler.update()
            """,
            "derived.py": """
                  import torch
                  from base import Base
                  from torch import nn

                  class Trainer(Base):
                      def train(self, loader):
                          for x, y in loader:
                ~             loss = nn.functional.mse_loss(self.model(x), y)
                              self.update(loss)
            """,
            "other.py": """
                  class Meter:
                      def update(self, value):
                          self.value = value

                  Meter().update(1)
            """,
        }
    )


def test_helper_that_is_called_where_nothing_steps(leaves: Check) -> None:
    leaves(
        """
        def accumulate(model, x, y):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()

        def look(model, x, y):
            accumulate(model, x, y)
            return [p.grad for p in model.parameters()]

        def main():
            MODEL
            for x, y in loader:
                accumulate(model, x, y)
                optimizer.step()
        """,
        "no optimizer.step() belongs to this backward()",
    )


def test_helper_that_clips_before_its_caller_steps_an_optimizer_out_of_its_sight(rewrites: Check) -> None:
    rewrites(
        """
        - def accumulate(model, x, y):
        -     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        -     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        + def accumulate(model, x, y, scaler):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
        +     nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())

          def main():
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              for x, y in loader:
                  optimizer.zero_grad()
        -         accumulate(model, x, y)
        +         accumulate(model, x, y, scaler)
        ~         optimizer.step()
        """
    )


def test_helper_that_clips_before_its_caller_steps_what_it_was_given(rewrites: Check) -> None:
    rewrites(
        """
        - def backward(loss, model, opt):
        -     loss.backward()
        + def backward(loss, model, opt, scaler):
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(opt)
              nn.utils.clip_grad_norm_(model.parameters(), 1.0)

          def main():
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              for x, y in loader:
                  optimizer.zero_grad()
        ~         loss = nn.functional.mse_loss(model(x), y)
        -         backward(loss, model, optimizer)
        +         backward(loss, model, optimizer, scaler)
        ~         optimizer.step()
        """
    )


def test_helper_that_clips_in_rounds_of_which_not_every_one_steps(rewrites: Check) -> None:
    rewrites(
        """
        - def backward(loss, model, opt):
        -     loss.backward()
        -     norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        + def backward(loss, model, opt, scaler):
        +     scaler.scale(loss).backward()
        +     norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale()) / scaler.get_scale()
              return norm

          def main():
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              for i, (x, y) in enumerate(loader):
        ~         loss = nn.functional.mse_loss(model(x), y)
        -         norm = backward(loss, model, optimizer)
        +         norm = backward(loss, model, optimizer, scaler)
                  if i % 4 == 3:
        ~             optimizer.step()
                      optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize(
    "caller",
    [
        "if loss > 10: continue",  # what is unscaled then, nothing steps on
        "nn.utils.clip_grad_value_(model.parameters(), 0.5)",  # unscales it, too
    ],
)
def test_helper_that_clips_what_its_caller_skips_or_unscales(caller: str, migrate: Check) -> None:
    plan = migrate(
        f"""
        def backward(loss, model, opt):
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)

        def main():
            MODEL
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                backward(loss, model, optimizer)
                {caller}
                optimizer.step()
        """
    )
    assert "clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())" in plan.after, plan.findings


def test_helper_that_changes_gradients_before_its_caller_steps(leaves: Check) -> None:
    leaves(
        """
        def accumulate(model, x, y):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            for p in model.parameters():
                p.grad += torch.randn_like(p.grad)

        def main():
            MODEL
            for x, y in loader:
                optimizer.zero_grad()
                accumulate(model, x, y)
                optimizer.step()
        """,
        "gradients are read in a function that does not also go backward and step",
    )


DERIVED = """
  class Trainer:
      def __init__(self):
          self.net = nn.Linear(2, 2)
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda")

      def go(self, x):
-         loss = self.net(x).sum()
-         loss.backward()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+             loss = self.net(x).sum()
+         self.scaler.scale(loss).backward()

      def train(self, x):
          self.go(x)
-         self.optimizer.step()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()

  class Other(Trainer):
      def go(self, x):
-         (2 * self.net(x).sum()).backward()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+             loss = 2 * self.net(x).sum()
+         self.scaler.scale(loss).backward()
"""


def test_helper_whose_subclass_goes_backward_otherwise(rewrites: Check) -> None:
    rewrites(DERIVED)


def test_method_that_derived_classes_fill_in_goes_backward_where_it_trains(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, net):
                  self.net = net.cuda()
                  self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def compute(self, x, train):
                  raise NotImplementedError

              def count_losses(self):
                  return []

              def validate(self, loader):
                  with torch.no_grad():
                      return [self.compute(x, False) for x in loader]

              def train(self, loader):
                  losses = self.count_losses()
                  for x in loader:
                      loss = self.compute(x, True)
                      losses.append(loss)
        +             self.scaler.unscale_(self.optimizer)
                      nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        -             self.optimizer.step()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()

          class Depth(Trainer):
              def compute(self, x, train):
        ~         loss = self.net(x).sum()
                  if train:
                      self.optimizer.zero_grad()
        -             loss.backward()
        +             self.scaler.scale(loss).backward()
                  return loss.item()

          trainer = Depth(nn.Linear(2, 2))
          trainer.train(batches)
          trainer.validate(batches)
        """
    )


def test_method_that_derived_classes_fill_in_takes_the_scaler_of_who_trains(rewrites: Check) -> None:
    rewrites(
        """
          class Task:
              def __init__(self, net):
                  self.net = net

        -     def compute(self, x, train):
        +     def compute(self, x, train, scaler):
                  raise NotImplementedError

          class Depth(Task):
        -     def compute(self, x, train):
        +     def compute(self, x, train, scaler):
        ~         loss = self.net(x).sum()
                  if train:
        -             loss.backward()
        +             scaler.scale(loss).backward()
                  return loss.item()

        - def fit(task: Task, optimizer, loader):
        + def fit(task: Task, optimizer, scaler, loader):
              for x in loader:
                  optimizer.zero_grad()
        -         task.compute(x, True)
        -         optimizer.step()
        +         task.compute(x, True, scaler)
        +         scaler.step(optimizer)
        +         scaler.update()
              with torch.no_grad():
                  for x in loader:
        -             print(task.compute(x, False))
        +             print(task.compute(x, False, None))

          def main(loader):
              net = nn.Linear(2, 2).cuda()
        ~     optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        -     fit(Depth(net), optimizer, loader)
        +     fit(Depth(net), optimizer, scaler, loader)
        """
    )


def test_method_of_another_object_of_the_same_class_takes_the_scaler_of_who_steps(rewrites: Check) -> None:
    rewrites(
        """
          class Level:
              def __init__(self, net, below):
                  self.net = net.cuda()
                  self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.below = below

        -     def go(self, x):
        +     def go(self, x, scaler):
        ~         loss = self.net(x).sum()
        -         loss.backward()
        +         scaler.scale(loss).backward()

              def train(self, x):
        -         self.below.go(x)
        -         self.optimizer.step()
        +         self.below.go(x, self.scaler)
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_helper_whose_subclass_does_less_of_the_step(leaves: Check) -> None:
    original = "\n".join(line[2:] for line in DERIVED.splitlines() if not line.startswith("+"))
    leaves(original.replace("(2 * self.net(x).sum())", "self.kept") + "\n", "one computes the loss or steps")


def test_helper_among_other_code(leaves: Check) -> None:
    leaves(
        """
        def accumulate(model, x, y):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss.item()

        def main():
            MODEL
            for x, y in loader:
                print(accumulate(model, x, y) / 2)
                optimizer.step()
        """,
        "is part of a longer expression",
    )


def test_wrapper_that_does_not_always_step_updates_where_it_does(rewrites: Check) -> None:
    rewrites(
        """
          class Accumulating:
              def __init__(self, optimizer):
                  self.optimizer = optimizer
                  self.count = 0

              def step_sometimes(self):
                  self.count += 1
                  if self.count % 4 == 0:
        ~             self.optimizer.step()
                      self.optimizer.zero_grad()

          model = nn.Linear(2, 2)
          wrapped = Accumulating(torch.optim.SGD(model.parameters(), lr=0.1))
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     loss.backward()
              wrapped.step_sometimes()
        """
    )


def test_method_that_clips_before_it_steps_unscales_there(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def optimizer_step(self, limit):
                  if limit:
        +             self.scaler.unscale_(self.optimizer)
                      nn.utils.clip_grad_norm_(self.net.parameters(), limit)
        -         self.optimizer.step()
        +         self.scaler.step(self.optimizer)
                  self.optimizer.zero_grad()

              def train(self, loader):
                  for i, (x, y) in enumerate(loader):
        ~             loss = nn.functional.mse_loss(self.net(x), y)
        -             loss.backward()
        +             self.scaler.scale(loss).backward()
                      if i % 4 == 3:
                          self.optimizer_step(1.0)
        +                 self.scaler.update()
        """
    )


def test_method_that_returns_where_it_does_not_step_yet(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def optimizer_step(self, i):
                  if i % 4:
                      return None
        +         self.scaler.unscale_(self.optimizer)
                  norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        -         self.optimizer.step()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
                  self.optimizer.zero_grad()
                  return norm

              def train(self, loader):
                  for i, (x, y) in enumerate(loader):
        ~             loss = nn.functional.mse_loss(self.net(x), y)
        -             loss.backward()
        +             self.scaler.scale(loss).backward()
                      norm = self.optimizer_step(i)
        """
    )


def test_method_that_clips_gradients_which_its_caller_has_read(leaves: Check) -> None:
    leaves(
        """
        class Trainer:
            def __init__(self):
                self.net = nn.Linear(2, 2)
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def optimizer_step(self):
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()

            def train(self, loader):
                for x, y in loader:
                    loss = nn.functional.mse_loss(self.net(x), y)
                    loss.backward()
                    print(sum(p.grad.norm() for p in self.net.parameters()))
                    self.optimizer_step()
        """,
        "gradients are read in a function that does not also go backward and step",
    )


def test_method_that_steps_only_sometimes_beside_another_step(leaves: Check) -> None:
    leaves(
        """
        class Trainer:
            def __init__(self):
                self.net = nn.Linear(2, 2)
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.head = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def optimizer_step(self, i):
                if i % 4 == 3:
                    self.optimizer.step()

            def train(self, loader):
                for i, (x, y) in enumerate(loader):
                    loss = nn.functional.mse_loss(self.net(x), y)
                    self.net.zero_grad()
                    loss.backward()
                    self.optimizer_step(i)
                    self.head.step()
        """,
        "optimizer_step() does not always step",
    )


def test_wrapper_that_is_also_called_beside_another_training(leaves: Check) -> None:
    leaves(
        """
        class ScheduledOptim:
            def __init__(self, optimizer):
                self._optimizer = optimizer

            def step_and_update_lr(self):
                self._optimizer.step()

        def finish(optimizer):
            optimizer.step_and_update_lr()

        def main():
            model = nn.Linear(2, 2)
            optimizer = ScheduledOptim(torch.optim.SGD(model.parameters(), lr=0.1))
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step_and_update_lr()
        """,
        "step_and_update_lr() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


def test_loss_that_is_computed_by_a_function_is_in_the_region_of_its_evaluation(rewrites: Check) -> None:
    rewrites(
        """
          def performance(out, y):
              return nn.functional.mse_loss(out, y), out.argmax(1)

          def evaluate(model, loader):
              for x, y in loader:
        ~         out = model(x)
        ~         loss, best = performance(out, y)

        ~ MODEL
          for x, y in loader:
        ~     loss, best = performance(model(x), y)
        ~     STEP
        """
    )


def test_wrapper_whose_method_is_called_step(rewrites: Check) -> None:
    rewrites(
        """
          class NoamOpt:
              def __init__(self, optimizer):
                  self.optimizer = optimizer
                  self.count = 0

        -     def step(self):
        +     def step(self, scaler):
                  self.count += 1
        -         self.optimizer.step()
        +         scaler.step(self.optimizer)
                  self.optimizer.zero_grad()

        - def train(model, loader, opt):
        + def train(model, loader, opt, scaler):
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         loss.backward()
        -         opt.step()
        +         opt.step(scaler)
        +         scaler.update()
                  opt.zero_grad()

          model = nn.Linear(2, 2)
          optimizer = NoamOpt(torch.optim.Adam(model.parameters()))
        - train(model, load(), optimizer)
        + scaler = torch.amp.GradScaler("cuda")
        + train(model, load(), optimizer, scaler)
        """
    )


def test_wrapper_in_a_package_that_a_trainer_of_another_file_is_given(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "optim/wrap.py": """
                  import torch

                  class Optim(object):
                      def set_parameters(self, params):
                          self.params = list(params)
                          self.inner = torch.optim.Adam(self.params)

                -     def step(self):
                +     def step(self, scaler):
                -         self.inner.step()
                +         scaler.step(self.inner)
            """,
            "trainer.py": """
                  import torch
                  from torch import nn

                  class Trainer:
                      def __init__(self, model, loader, optimizer):
                          self.model, self.loader = model, loader
                          self.optimizer = optimizer
                +         self.scaler = torch.amp.GradScaler("cuda")

                      def train(self):
                          for x, y in self.loader:
                              self.model.zero_grad()
                -             loss = nn.functional.mse_loss(self.model(x), y)
                -             loss.backward()
                +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +                 loss = nn.functional.mse_loss(self.model(x), y)
                +             self.scaler.scale(loss).backward()
                +             self.scaler.unscale_(self.optimizer.inner)
                              nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                -             self.optimizer.step()
                +             self.optimizer.step(self.scaler)
                +             self.scaler.update()
            """,
            "main.py": """
                  from torch import nn
                  from optim.wrap import Optim
                  from trainer import Trainer

                  model = nn.Linear(2, 2).cuda()
                  optimizer = Optim()
                  optimizer.set_parameters(model.parameters())
                  Trainer(model, load(), optimizer).train()
            """,
        }
    )


WRAPPER_IN_A_FILE = """
      import torch

      class Optim(object):
          def set_parameters(self, params):
              self.inner = torch.optim.Adam([*params])

    -     def step(self):
    +     def step(self, scaler):
    -         self.inner.step()
    +         scaler.step(self.inner)
"""


def test_wrapper_that_a_function_hands_to_a_trainer_of_its_file(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "wrap.py": WRAPPER_IN_A_FILE,
            "trainer.py": """
                + import torch
                  def build_trainer(model, optims):
                      return Trainer(model, optims)

                  class Trainer:
                      def __init__(self, model, optims):
                          self.model, self.optims = model, optims
                +         self.scaler = torch.amp.GradScaler("cuda")

                      def train(self, loader):
                          for x, y in loader:
                              self.model.zero_grad()
                -             loss = (self.model(x) - y).pow(2).mean()
                -             loss.backward()
                +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +                 loss = (self.model(x) - y).pow(2).mean()
                +             self.scaler.scale(loss).backward()
                              for each in self.optims:
                -                 each.step()
                +                 each.step(self.scaler)
                +             self.scaler.update()
            """,
            "main.py": """
                  from torch import nn
                  import builder
                  from trainer import build_trainer

                  model = nn.Linear(2, 2).cuda()
                  build_trainer(model, [builder.build(model)]).train(load())
            """,
            "builder.py": """
                  from wrap import Optim

                  def build(model):
                      found = Optim()
                      found.set_parameters(model.parameters())
                      return found
            """,
        }
    )


def test_wrapper_that_may_come_out_of_a_checkpoint_stays(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "wrap.py": """
                  import torch

                  class Optim(object):
                      def set_parameters(self, params):
                          self.inner = torch.optim.Adam([*params])

                      def step(self):
                          self.inner.step()
            """,
            "trainer.py": """
                  import torch.distributed as dist

                  def build_trainer(model, optims, accum, gpus):
                      return Trainer(model, optims, accum, gpus)

                  class Trainer:
                      def __init__(self, model, optims, accum=1, gpus=1):
                          self.model, self.optims, self.accum, self.gpus = model, optims, accum, gpus

                      def train(self, held):
                          for x, y in held:
                              if self.accum == 1:
                                  self.model.zero_grad()
                              loss = (self.model(x) - y).pow(2).mean()
                              loss.backward()
                              if self.accum == 1:
                                  if self.gpus > 1:
                                      dist.all_reduce([p.grad.data for p in self.model.parameters()])
                                  for each in self.optims:
                                      each.step()
            """,
            "main.py": """
                  import sys
                  import torch
                  from torch import nn
                  import builder
                  from trainer import build_trainer

                  checkpoint = torch.load(sys.argv[1]) if len(sys.argv) > 3 else None
                  model = nn.Linear(2, 2).cuda()
                  found = builder.build(model, checkpoint)
                  build_trainer(model, [found], int(sys.argv[-2]), int(sys.argv[-1])).train(load())
            """,
            "builder.py": """
                  from wrap import Optim

                  def build(model, checkpoint):
                      found = Optim() if checkpoint is None else checkpoint["optims"][0]
                      found.set_parameters([*model.parameters()])
                      return found
            """,
        }
    )
    assert [each.message for each in findings] == [
        "step left as it was: step() has a part in the step, and is not seen to be called only in steps that can be "
        "moved (line 20)"
    ]


def test_wrapper_of_which_some_stand_in_a_container_keeps_its_step_as_it_is(leaves: Check) -> None:
    leaves(
        """
        class Solver:
            def __init__(self, params):
                self.opt = torch.optim.SGD(params, lr=0.1)

            def step(self):
                self.opt.step()

        class Trainer:
            def __init__(self, model):
                self.solvers = {}
                self.solvers["main"] = Solver(model.parameters())

            def end(self):
                for name in self.solvers:
                    self.solvers[name].step()

        def once(model, x):
            solver = Solver(model.parameters())
            model(x).mean().backward()
            solver.step()
        """,
        "step() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


def test_wrapper_that_may_be_something_else_is_no_optimizer(leaves: Check) -> None:
    leaves(
        """
        from saved import restored

        class Solver:
            def __init__(self, params):
                self.opt = torch.optim.SGD(params, lr=0.1)

            def step(self):
                self.opt.step()

        model = nn.Linear(2, 2).cuda()
        optimizer = restored() if args.resume else Solver(model.parameters())
        for x in loader:
            model.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        """,
        "step() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


WRAPPER_OF_TORCHS = """
  class Solver:
      def __init__(self, params):
          self.opt = None
          self.opt = torch.optim.SGD(params, lr=0.1)

      def step(self):
-         self.opt.step()
+         scaler.step(self.opt)

  model = nn.Linear(2, 2).cuda()
  solver = Solver(model.parameters())
+ scaler = torch.amp.GradScaler("cuda")
  for x in loader:
      model.zero_grad()
-     loss = model(x).mean()
-     loss.backward()
+     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+         loss = model(x).mean()
+     scaler.scale(loss).backward()
      solver.step()
+     scaler.update()
"""


def test_wrapper_of_a_program_that_is_too_large_is_known_by_the_objects_that_are_made_of_it(
    rewrites: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_calls._Calls, "is_complete", False)
    rewrites(WRAPPER_OF_TORCHS)


def test_wrapper_of_a_program_that_is_too_large_stays_where_an_object_is_not_known(
    leaves: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_calls._Calls, "is_complete", False)
    lines = [each[2:] for each in WRAPPER_OF_TORCHS.splitlines() if not each.startswith("+")]
    leaves(
        "\n".join([*lines, "def end(other):", "    other.step()"]),
        "step() has a part in the step, and is not seen to be called only in steps that can be moved",
    )


def test_wrapper_that_shows_the_parameters_is_stepped_like_an_optimizer(rewrites: Check) -> None:
    rewrites(
        """
          class Warmup:
              def __init__(self, optimizer):
                  self.optimizer = optimizer
                  self.param_groups = optimizer.param_groups

              def step(self):
                  self.optimizer.step()

          model = nn.Linear(2, 2)
        ~ optimizer = Warmup(torch.optim.Adam(model.parameters()))
        ~ EPOCH
        """
    )


def test_optimizer_of_the_base_class(rewrites: Check) -> None:
    rewrites(
        """
          class Base:
              def set_up(self):
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

          class Trainer(Base):
              def __init__(self):
                  self.net = nn.Linear(2, 2)
                  self.set_up()

              def train(self, x, y):
        ~         loss = nn.functional.mse_loss(self.net(x), y)
                  self.optimizer.zero_grad()
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_forward_of_a_helper_that_is_in_mixed_precision_already(leaves: Check) -> None:
    leaves(
        """
        def forward(model, x, y):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return nn.functional.mse_loss(model(x), y)

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                loss = forward(model, x, y)
                STEP
        """,
        "forward() is in mixed precision already",
    )


def test_forward_and_backward_helpers_of_code_that_has_a_switch_for_mixed_precision(leaves: Check) -> None:
    leaves(
        """
        def train(model, loader, optimizer, amp_autocast, loss_scaler=None):
            for x, y in loader:
                def forward():
                    with amp_autocast():
                        return nn.functional.mse_loss(model(x), y)

                def backward(loss):
                    if loss_scaler is not None:
                        loss_scaler(loss, optimizer)
                    else:
                        STEP

                loss = forward()
                backward(loss)
        """,
        "forward() is in mixed precision already",
    )


def test_model_of_the_base_class(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "base.py": """
                  import torch
                  from torch import nn

                  class Base:
                      def set_up(self, build):
                          self.net_g = build()
                          self.net_g.train()
                          self.optimizer = torch.optim.SGD(self.net_g.parameters(), lr=0.1)
                +         self.scaler = torch.amp.GradScaler("cuda")
            """,
            "trainer.py": """
                  import torch
                  from torch import nn
                  from base import Base

                  class Trainer(Base):
                      def train(self, x, y):
                ~         out = self.net_g(x)
                ~         loss = nn.functional.mse_loss(out, y)
                -         loss.backward()
                -         self.optimizer.step()
                +         self.scaler.scale(loss).backward()
                +         self.scaler.step(self.optimizer)
                +         self.scaler.update()
            """,
        }
    )


def test_function_that_steps_all_optimizers_of_a_collection_is_part_of_the_step(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model, optimizers):
                  self.model, self.optimizers = model, optimizers
        +         self.scaler = torch.amp.GradScaler("cuda")

              def optimizer_step(self):
                  for optimizer in self.optimizers.values():
        -             optimizer.step()
        +             self.scaler.step(optimizer)
                      optimizer.zero_grad()

              def train(self, loader):
                  for x, y in loader:
        ~             loss = nn.functional.mse_loss(self.model(x), y)
        -             loss.backward()
        +             self.scaler.scale(loss).backward()
                      self.optimizer_step()
        +             self.scaler.update()
        """
    )


@pytest.mark.parametrize(
    ("head", "made", "why"),
    [
        ("import torch\nfrom apex import amp\n\namp.init()\n", "torch.nn.Linear(2, 2)", "it is called beside Apex"),
        ("import torch\n", "torch.nn.Linear(2, 2).double()", "the model computes in float64"),
    ],
)
def test_forward_in_a_file_whose_steps_stay(tmp_path: Path, head: str, made: str, why: str) -> None:
    helper = "def update(loss, optimizer):\n    loss.backward()\n    optimizer.step()\n"
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "train.py").write_text(
        f"{head}from helper import update\n\nmodel = {made}\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x in loader:\n    loss = model(x).mean()\n    update(loss, optimizer)\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    assert any(each.code == "AMP590" and why in each.message for each in outcome.findings)
    assert "helper.py" not in {each.source.path.name for each in outcome.changed}


def test_backward_in_a_helper_whose_result_is_returned(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
                  self.model = nn.Linear(2, 2)
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def losses(self, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        -         loss.backward()
        +         self.scaler.scale(loss).backward()
                  return loss.item()

              def train_step(self, x, y):
                  return self.losses(x, y)

              def fit(self, loader):
                  for x, y in loader:
                      total = self.train_step(x, y)
        -             self.optimizer.step()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                      self.optimizer.zero_grad()
        """
    )


@pytest.mark.parametrize("made", ["nn.Linear(2, 2)", "Net()"])
def test_model_is_what_a_method_hands_back(rewrites: Check, made: str) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)

              def forward(self, x):
                  return self.fc(x)

          class Trainer:
              def __init__(self):
                  self.model = MADE
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def bare(self, model=None):
                  if model is None:
                      model = self.model
                  if isinstance(model, nn.DataParallel):
                      return model.module
                  else:
                      return model

              def fit(self, loader):
                  for x, y in loader:
                      self.fit_batch(x, y)

              def fit_batch(self, x, y):
        -         loss = nn.functional.mse_loss(self.model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(self.model(x), y)
                  self.optimizer.zero_grad()
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()

          class Bare(Trainer):
              def fit_batch(self, x, y):
        -         loss = nn.functional.mse_loss(self.bare()(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(self.bare()(x), y)
                  self.optimizer.zero_grad()
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()

          Trainer().fit(loader)
          Bare().fit(loader)
        """.replace("MADE", made)
    )
