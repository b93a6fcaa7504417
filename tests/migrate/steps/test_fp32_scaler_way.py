"""The scaler of a float32 script: it lives where the optimizer lives, and travels the way the optimizer travels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_scaler_is_made_after_the_optimizer_at_module_level(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
          criterion = nn.CrossEntropyLoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for inputs, targets in loader:
              optimizer.zero_grad()
        -     outputs = model(inputs)
        -     loss = criterion(outputs, targets)
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         outputs = model(inputs)
        +         loss = criterion(outputs, targets)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              print(loss.item())
        """
    )


def test_scaler_is_an_argument_beside_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
        - def train(model, loader, criterion, optimizer, device):
        + def train(model, loader, criterion, optimizer, scaler, device):
              for x, y in loader:
        -         loss = criterion(model(x.to(device)), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = criterion(model(x.to(device)), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
        -         loss = nn.functional.mse_loss(model(x), y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
                  if optimizer is not None:
                      optimizer.zero_grad()
        -             loss.backward()
        -             optimizer.step()
        +             scaler.scale(loss).backward()
        +             scaler.step(optimizer)
        +             scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
              for x, y in loader:
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main() -> None:
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     train(model, optimizer, 1)
        +     scaler = torch.amp.GradScaler("cuda")
        +     train(model, optimizer, scaler, 1)
        """
    )


def test_scaler_is_an_attribute_where_the_optimizer_is(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.criterion = nn.MSELoss()

              def step(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = self.criterion(self.model(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = self.criterion(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
                  return loss.item()
        """
    )


def test_scaler_is_made_in_the_class_that_is_given_the_optimizer(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self, model, optimizer):
                  self.model = model
                  self.optimizer = optimizer
        +         self.scaler = torch.amp.GradScaler("cuda")

              def fit(self, loader):
                  for x, y in loader:
        -             loss = nn.functional.mse_loss(self.model(x), y)
        -             loss.backward()
        -             self.optimizer.step()
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 loss = nn.functional.mse_loss(self.model(x), y)
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()

          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          Trainer(model, optimizer).fit(loader)
        """
    )


def test_closure_sees_the_scaler_of_the_function_around_it(rewrites: Check) -> None:
    rewrites(
        """
          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda")

              def train_step(x, y):
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

              for x, y in loader:
                  train_step(x, y)
        """
    )


def test_function_sees_the_scaler_of_the_module(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")

          def train(epoch):
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          train(1)
        """
    )


def test_scaler_goes_through_two_functions(rewrites: Check) -> None:
    rewrites(
        """
        - def step(model, optimizer, x):
        -     loss = model(x).mean()
        -     loss.backward()
        -     optimizer.step()
        + def step(model, optimizer, scaler, x):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()

        - def epoch(model, optimizer, loader):
        + def epoch(model, optimizer, scaler, loader):
              for x in loader:
        -         step(model, optimizer, x)
        +         step(model, optimizer, scaler, x)

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
        -         loss = self.model(x).mean()
        -         loss.backward()
        -         optimizer.step()
        +     def step(self, optimizer, scaler, x):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = self.model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

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
        -         loss = nets["d"](x).mean()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nets["d"](x).mean()
                  optimizers["d"].zero_grad()
        -         loss.backward()
        -         optimizers["d"].step()
        +         scaler.scale(loss).backward()
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
              for x in loader:
        -         loss = model(x).mean()
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()

          def main():
              model = nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda")
              train(
                  model,
                  optimizer,
        +         scaler,
                  loader,
              )
        """
    )


def test_optimizer_may_come_from_a_function(rewrites: Check) -> None:
    rewrites(
        """
          def make(model):
              return torch.optim.SGD(model.parameters(), lr=0.1)

          def main():
              model = nn.Linear(2, 2)
              optimizer = make(model)
        +     scaler = torch.amp.GradScaler("cuda")
              for x in loader:
        -         loss = model(x).mean()
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


def test_optimizer_may_be_unpacked(rewrites: Check) -> None:
    rewrites(
        """
          def main():
              model, optimizer = build()
        +     scaler = torch.amp.GradScaler("cuda")
              for x in loader:
        -         loss = model(x).mean()
        -         loss.backward()
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = model(x).mean()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
        """
    )


def test_optimizer_made_in_branches_has_one_scaler_behind_them(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          if args.adam:
              optimizer = torch.optim.Adam(model.parameters())
          else:
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
              optimizer.zero_grad()
        -     loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_scaler_travels_between_files(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch

                - def train_one_epoch(model, optimizer, loader):
                + def train_one_epoch(model, optimizer, scaler, loader):
                      for x, y in loader:
                -         loss = torch.nn.functional.mse_loss(model(x), y)
                -         loss.backward()
                -         optimizer.step()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +             loss = torch.nn.functional.mse_loss(model(x), y)
                +         scaler.scale(loss).backward()
                +         scaler.step(optimizer)
                +         scaler.update()
            """,
            "main.py": """
                  import torch
                  from engine import train_one_epoch

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                + scaler = torch.amp.GradScaler("cuda")
                  for epoch in range(3):
                -     train_one_epoch(model, optimizer, loader)
                +     train_one_epoch(model, optimizer, scaler, loader)
            """,
        },
    )


def test_every_caller_makes_its_own_scaler(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch

                - def train(model, optimizer, loader):
                + def train(model, optimizer, scaler, loader):
                      for x, y in loader:
                -         loss = torch.nn.functional.mse_loss(model(x), y)
                -         loss.backward()
                -         optimizer.step()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +             loss = torch.nn.functional.mse_loss(model(x), y)
                +         scaler.scale(loss).backward()
                +         scaler.step(optimizer)
                +         scaler.update()
            """,
            "a.py": """
                  import torch
                  from engine import train

                  def main():
                      model = torch.nn.Linear(2, 2)
                      opt = torch.optim.SGD(model.parameters(), lr=0.1)
                -     train(model, opt, loader)
                +     scaler = torch.amp.GradScaler("cuda")
                +     train(model, opt, scaler, loader)
            """,
            "b.py": """
                  import torch
                  import engine

                  def main():
                      model = torch.nn.Linear(2, 2)
                      sgd = torch.optim.SGD(model.parameters(), lr=0.1)
                -     engine.train(model, loader=loader, optimizer=sgd)
                +     scaler = torch.amp.GradScaler("cuda")
                +     engine.train(model, loader=loader, optimizer=sgd, scaler=scaler)
            """,
        },
    )


def test_scaler_travels_into_a_package(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "pkg/__init__.py": """
            """,
            "pkg/engine.py": """
                  import torch
                - def train(model, optimizer, loader):
                + def train(model, optimizer, scaler, loader):
                      for x in loader:
                -         loss = model(x).mean()
                -         loss.backward()
                -         optimizer.step()
                +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +             loss = model(x).mean()
                +         scaler.scale(loss).backward()
                +         scaler.step(optimizer)
                +         scaler.update()
            """,
            "main.py": """
                  import torch
                  from pkg import engine
                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                - engine.train(model, optimizer, loader)
                + scaler = torch.amp.GradScaler("cuda")
                + engine.train(model, optimizer, scaler, loader)
            """,
        },
    )


def test_taken_name_is_not_used_again(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          scaler = StandardScaler()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + grad_scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y)
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     grad_scaler.scale(loss).backward()
        +     grad_scaler.step(optimizer)
        +     grad_scaler.update()
        """
    )


def test_no_free_name(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        scaler = grad_scaler = amp_scaler = None
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        "are all taken",
    )


def test_optimizer_from_nowhere(leaves: Check) -> None:
    leaves(
        """
        models = nn.ModuleList([nn.Linear(2, 2)])
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
        for x, y in loader:
            loss = sum(nn.functional.mse_loss(model(x), y) for model in models)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        """,
        "where `optimizer` is made cannot be seen",
    )


def test_optimizer_of_an_object_of_unknown_class(leaves: Check) -> None:
    leaves(
        """
        def train(state, loader):
            for x in loader:
                loss = state.model(x).mean()
                loss.backward()
                state.optimizer.step()
        """,
        "where `state.optimizer` is made cannot be seen",
    )


def test_function_that_nobody_calls(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        """,
        "no call of train() is among the files",
    )


def test_function_that_is_passed_as_a_value(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run(train)
        train(model, optimizer, loader)
        """,
        "passed around as a value",
    )


def test_optimizer_among_starred_arguments(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        everything = [model, torch.optim.SGD(model.parameters(), lr=0.1), loader]
        train(*everything)
        """,
        "starred arguments",
    )


def test_optimizer_among_starred_keyword_arguments(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        train(**everything)
        """,
        "starred arguments",
    )


def test_function_that_calls_itself(leaves: Check) -> None:
    leaves(
        """
        def train(model, optimizer, depth):
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            train(model, optimizer, depth - 1)
        """,
        "train() calls itself",
    )


def test_parameter_that_the_function_replaces(leaves: Check) -> None:
    leaves(
        """
        def train(model, loader, optimizer=None):
            optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                loss = model(x).mean()
                loss.backward()
                optimizer.step()
        train(model, loader)
        """,
        "no way for a loss scaler",
    )


def test_parameter_that_the_function_fills_in(leaves: Check) -> None:
    leaves(
        """
        def train(model, loader, optimizer=None):
            if optimizer is None:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x in loader:
                loss = model(x).mean()
                loss.backward()
                optimizer.step()

        train(nn.Linear(2, 2), [])
        """,
        "no way for a loss scaler",
    )


def test_function_that_another_file_registers_is_left(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                import torch
                def train(model, optimizer, loader):
                    for x in loader:
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
            """,
            "main.py": """
                from engine import train
                def run(registry):
                    registry.add(train)
            """,
        },
    )


def test_one_caller_that_is_not_understood_keeps_all_files_as_they_are(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                import torch
                def train(model, optimizer, loader):
                    for x in loader:
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
            """,
            "good.py": """
                import torch
                from engine import train
                model = torch.nn.Linear(2, 2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                train(model, optimizer, loader)
            """,
            "other.py": """
                from engine import train
                def run(parts):
                    train(*parts)
            """,
        },
    )


def test_caller_that_imports_the_function_under_another_name_passes_the_scaler(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch


                - def train(model, optimizer, x):
                -     loss = model(x).mean()
                -     loss.backward()
                -     optimizer.step()
                + def train(model, optimizer, scaler, x):
                +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +         loss = model(x).mean()
                +     scaler.scale(loss).backward()
                +     scaler.step(optimizer)
                +     scaler.update()
                """,
            "main.py": """
                  import torch
                  from engine import train as train_step

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                + scaler = torch.amp.GradScaler("cuda")
                - train_step(model, optimizer, x)
                + train_step(model, optimizer, scaler, x)
                """,
        }
    )
