"""The scaler of a float32 script: it lives where the optimizer lives, and travels the way the optimizer travels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_scaler_is_an_argument_beside_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, criterion, optimizer, device):
        + def train(model, loader, criterion, optimizer, scaler, device):
              for x, y in loader:
        ~         loss = criterion(model(x.to(device)), y)
        ~         STEP

          def main():
              MODEL
        -     train(model, loader, nn.MSELoss(), optimizer, "cuda")
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, loader, nn.MSELoss(), optimizer, scaler, "cuda")
        """
    )


def test_scaler_is_a_keyword_argument_where_the_optimizer_is_one(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, optimizer):
        + def train(model, loader, optimizer, scaler):
        ~     EPOCH

          def main():
              MODEL
        -     train(model, optimizer=optimizer, loader=loader)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer=optimizer, scaler=scaler, loader=loader)
        """
    )


def test_scaler_has_a_default_where_the_optimizer_has_one(rewrites: Check) -> None:
    rewrites(
        """
        - def run(model, loader, optimizer=None):
        + def run(model, loader, optimizer=None, scaler=None):
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
                  if optimizer is not None:
                      optimizer.zero_grad()
        ~             STEP

          def main():
              MODEL
        -     run(model, loader, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
        +     run(model, loader, optimizer, scaler)
              run(model, loader)
        -     run(model, loader, None)
        +     run(model, loader, None, None)
        """
    )


def test_scaler_is_keyword_only_where_the_optimizer_is(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, *, optimizer, epoch):
        + def train(model, loader, *, optimizer, scaler, epoch):
        ~     EPOCH

          def main():
              MODEL
        -     train(model, loader, optimizer=optimizer, epoch=1)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, loader, optimizer=optimizer, scaler=scaler, epoch=1)
        """
    )


def test_scaler_is_annotated_where_the_optimizer_is(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model: Net, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        + def train(model: Net, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, epoch: int) -> None:
        ~     EPOCH

          def main() -> None:
              MODEL
        -     train(model, optimizer, 1)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer, scaler, 1)
        """
    )


def test_scaler_goes_through_two_functions(rewrites: Check) -> None:
    rewrites(
        """
        - def step(model, optimizer, x):
        + def step(model, optimizer, scaler, x):
        ~     loss = model(x).mean()
        ~     STEP

        - def epoch(model, optimizer, loader):
        + def epoch(model, optimizer, scaler, loader):
              for x in loader:
        -         step(model, optimizer, x)
        +         step(model, optimizer, scaler, x)

          def main():
              MODEL
        -     epoch(model, optimizer, [])
        +     scaler = torch.amp.GradScaler("cuda")
        +     epoch(model, optimizer, scaler, [])
        """
    )


def test_scaler_that_a_function_is_given_serves_the_optimizer_that_it_makes_in_a_loop(rewrites: Check) -> None:
    rewrites(
        """
        - def epoch(model, loader, optimizer):
        + def epoch(model, loader, optimizer, scaler):
        ~     EPOCH

        - def train(model, other, loader, optimizer):
        + def train(model, other, loader, optimizer, scaler):
              for number in range(100):
                  if number < 10:
        -             epoch(model, loader, optimizer)
        +             epoch(model, loader, optimizer, scaler)
                      continue
                  if number == 10:
                      second = torch.optim.Adam(other.parameters())
        -         epoch(other, loader, second)
        +         epoch(other, loader, second, scaler)

          def main(other):
              MODEL
        -     train(model, other, loader, optimizer)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, other, loader, optimizer, scaler)
        """
    )


def test_scaler_goes_from_method_to_method(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
        -     def fit(self, optimizer, loader):
        +     def fit(self, optimizer, scaler, loader):
                  for x in loader:
        -             self.step(optimizer, x)
        +             self.step(optimizer, scaler, x)

        -     def step(self, optimizer, x):
        +     def step(self, optimizer, scaler, x):
        ~         loss = self.model(x).mean()
        ~         STEP

          def main(model):
              trainer = Trainer(model)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     trainer.fit(optimizer, loader)
        +     scaler = torch.amp.GradScaler("cuda")
        +     trainer.fit(optimizer, scaler, loader)
        """
    )


def test_scaler_stands_beside_a_collection_of_optimizers(rewrites: Check) -> None:
    rewrites(
        """
        - def train(nets, optimizers, loader):
        + def train(nets, optimizers, scaler, loader):
              for x, y in loader:
        ~         loss = nets["d"](x).mean()
                  optimizers["d"].zero_grad()
        ~         loss.backward()
        -         optimizers["d"].step()
        +         scaler.step(optimizers["d"])
        +         scaler.update()

          def main(nets):
              optimizers = {"d": torch.optim.SGD(nets["d"].parameters(), lr=0.1)}
        -     train(nets, optimizers, loader)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(nets, optimizers, scaler, loader)
        """
    )


def test_list_of_one_name_a_line_stays_one(rewrites: Check) -> None:
    rewrites(
        """
          def train(
              model,
              optimizer,  # steps
        +     scaler,
              loader,
          ):
        ~     EPOCH

          def main():
        ~     MODEL
              train(
                  model,
                  optimizer,
        +         scaler,
                  loader,
              )
        """
    )


def test_scaler_is_made_before_a_call_that_makes_the_optimizer_as_its_argument(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, optimizer, epochs=1):
        + def train(model, loader, optimizer, scaler, epochs=1):
        ~     EPOCH

          model = nn.Linear(2, 2)
        - train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
        + scaler = torch.amp.GradScaler("cuda")
        + train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), scaler)
        """
    )


def test_attribute_that_is_kept_at_a_function_hands_it_on_to_nobody(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, optimizer, x):
        + def train(model, optimizer, scaler, x):
        ~     loss = model(x).mean()
        ~     STEP
              train.steps += 1

          def main():
        ~     MODEL
              train.steps = 0
        -     train(model, optimizer, x)
        +     train(model, optimizer, scaler, x)
        """
    )


def test_step_of_a_schedule_is_handed_no_scaler(rewrites: Check) -> None:
    rewrites(
        """
          class Optimizer:
              def __init__(self, model):
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)

        -     def step(self):
        -         self.optimizer.step()
        +     def step(self, scaler):
        +         scaler.step(self.optimizer)

              def decay(self, loss=None):
                  self.schedule.step(loss)

          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = Optimizer(model)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def train(self, loader):
                  for x, y in loader:
                      self.model.zero_grad()
        -             loss = nn.functional.mse_loss(self.model(x), y)
        -             loss.backward()
        -             self.optimizer.step()
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 loss = nn.functional.mse_loss(self.model(x), y)
        +             self.scaler.scale(loss).backward()
        +             self.optimizer.step(self.scaler)
        +             self.scaler.update()

              def decay(self, loss=None):
                  self.optimizer.decay(loss)

          def main(loader):
              Trainer(nn.Linear(2, 2).cuda()).train(loader)
        """
    )


def test_wrapper_of_a_script_steps_by_its_scaler(rewrites: Check) -> None:
    rewrites(
        """
          class Optimizer:
              def __init__(self, parameters):
                  self.optimizer = torch.optim.SGD(parameters, lr=0.1)

              def step(self):
        -         self.optimizer.step()
        +         scaler.step(self.optimizer)

          model = nn.Linear(2, 2).cuda()
          optimizer = Optimizer(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              model.zero_grad()
        -     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     scaler.scale(loss).backward()
              optimizer.step()
        +     scaler.update()
        """
    )


def test_parameter_goes_with_the_scaler_that_it_is_handed_on_as(rewrites: Check) -> None:
    rewrites(
        """
          class Worker:
              def __init__(self, model):
                  self.model = model

        -     def fit_batch(self, optimizer, x, y):
        +     def fit_batch(self, optimizer, scaler, x, y):
        ~         loss = nn.functional.mse_loss(self.model(x), y)
        ~         STEP

        - def fit(worker, optimizer, loader):
        + def fit(worker, optimizer, scaler, loader):
              for x, y in loader:
        -         worker.fit_batch(optimizer, x, y)
        +         worker.fit_batch(optimizer, scaler, x, y)

          def main(x, y):
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              worker = Worker(model)
        -     worker.fit_batch(optimizer, x, y)
        +     worker.fit_batch(optimizer, scaler, x, y)
        """
    )


STAGES = """
  def make(model):
      return torch.optim.SGD(model.parameters(), lr=0.1)

- def one_stage(model, optimizer, loader):
+ def one_stage(model, optimizer, scaler, loader):
      for x, y in loader:
          optimizer.zero_grad()
~         loss = nn.functional.mse_loss(model(x), y)
~         loss.backward()
-         optimizer.step()
+         scaler.step(optimizer)
+         scaler.update()

- def train(model, optimizer, loader):
+ def train(model, optimizer, scaler, loader):
      for stage in range(3):
          if stage == 1:
              optimizer = make(model)
-         one_stage(model, optimizer, loader)
+         one_stage(model, optimizer, scaler, loader)

  model = nn.Linear(2, 2).cuda()
  optimizer = make(model)
+ scaler = torch.amp.GradScaler("cuda")
- train(model, optimizer, loader)
+ train(model, optimizer, scaler, loader)
"""


def test_an_optimizer_that_is_made_anew_steps_by_the_scaler_of_the_one_before(rewrites: Check) -> None:
    rewrites(STAGES)


@pytest.mark.parametrize("call", ["train(model, None, loader)", "train(model, loader=loader)"])
def test_an_optimizer_that_is_made_where_none_may_be_given_has_no_scaler(leaves: Check, call: str) -> None:
    text = "\n".join(each[2:] for each in STAGES.splitlines() if not each.startswith("+"))
    default = text.replace("def train(model, optimizer, loader)", "def train(model, optimizer=None, loader=None)")
    leaves(f"{default}\n{call}", "`optimizer` is a parameter that may be given another value")


def test_a_function_under_a_decorator_that_hands_everything_on(rewrites: Check) -> None:
    rewrites(
        """
          from functools import wraps
          def timed(function):
              @wraps(function)
              def inner(*args, **kwargs):
                  return function(*args, **kwargs)
              return inner
          @timed
        - def train(model, optimizer, x):
        + def train(model, optimizer, scaler, x):
              optimizer.zero_grad()
        ~     loss = model(x).mean()
        ~     loss.backward()
        -     optimizer.step()
        +     scaler.step(optimizer)
        +     scaler.update()
          MODEL
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     train(model, optimizer, x)
        +     train(model, optimizer, scaler, x)
        """
    )


def test_a_function_that_calls_itself_hands_the_scaler_on(rewrites: Check) -> None:
    rewrites(
        """
        - def run(model, loader, optimizer, trains, others=()):
        + def run(model, loader, optimizer, scaler, trains, others=()):
              if trains:
                  for x, y in loader:
        ~             loss = nn.functional.mse_loss(model(x), y)
        ~             STEP
        -         run(model, others, optimizer, False)
        +         run(model, others, optimizer, scaler, False)

          def main():
              MODEL
        -     run(model, loader, optimizer, True, others)
        +     scaler = torch.amp.GradScaler("cuda")
        +     run(model, loader, optimizer, scaler, True, others)
        """
    )


def test_functions_that_call_each_other_hand_the_scaler_on(rewrites: Check) -> None:
    rewrites(
        """
        - def fit(model, loader, optimizer, depth):
        + def fit(model, loader, optimizer, scaler, depth):
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
        -     again(model, loader, optimizer, depth - 1)
        +     again(model, loader, optimizer, scaler, depth - 1)

        - def again(model, loader, optimizer, depth):
        + def again(model, loader, optimizer, scaler, depth):
              if depth:
        -         fit(model, loader, optimizer, depth)
        +         fit(model, loader, optimizer, scaler, depth)

          def main():
              MODEL
        -     fit(model, loader, optimizer, 3)
        +     scaler = torch.amp.GradScaler("cuda")
        +     fit(model, loader, optimizer, scaler, 3)
        """
    )


def test_scaler_goes_through_a_second_name_of_a_function(rewrites: Check) -> None:
    rewrites(
        """
        - def run(model, loader, optimizer, trains):
        + def run(model, loader, optimizer, scaler, trains):
              for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
                  if trains:
        ~             STEP

          def main(checkpoint=None):
              again = run
              MODEL
        +     scaler = torch.amp.GradScaler("cuda")
              if checkpoint:
        -         again(model, loader, None, False)
        -     again(model, loader, optimizer, True)
        +         again(model, loader, None, None, False)
        +     again(model, loader, optimizer, scaler, True)

          main()
        """
    )


@pytest.mark.parametrize(
    "names",
    [
        "again = run\n    again = other",
        "again = run\n    print(map(again, [model]))",
        "again = run\n    def change():\n        nonlocal again\n        again = other\n    change()",
    ],
)
def test_second_names_that_may_be_another_functions(names: str, migrate: Check) -> None:
    text = f"""
    def run(model, loader, optimizer, trains):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            if trains:
                STEP

    def other(model, loader, optimizer, trains):
        print(model, loader, optimizer, trains)

    def main(model, loader, optimizer, checkpoint=None):
        {names.replace(chr(10), chr(10) + "    ")}
        again(model, loader, optimizer, True)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    main(model, loader, optimizer, object())
    """
    plan = migrate(text)
    assert "again(model, loader, optimizer, scaler, True)" not in plan.after
