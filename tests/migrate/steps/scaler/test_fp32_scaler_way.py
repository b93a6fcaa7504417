"""The scaler of a float32 script: it lives where the optimizer lives, and travels the way the optimizer travels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
