"""The scaler on its way between files: every caller is seen and changed, or no file is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings

Check = Callable[..., Any]


def test_scaler_travels_between_files(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch

                - def train_one_epoch(model, optimizer, loader):
                + def train_one_epoch(model, optimizer, scaler, loader):
                      for x, y in loader:
                ~         loss = torch.nn.functional.mse_loss(model(x), y)
                ~         STEP
            """,
            "main.py": """
                  import torch
                  from engine import train_one_epoch

                  model = torch.nn.Linear(2, 2)
                ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  for epoch in range(3):
                -     train_one_epoch(model, optimizer, loader)
                +     train_one_epoch(model, optimizer, scaler, loader)
            """,
        },
    )


@pytest.mark.parametrize("name", ["step", "take"])
def test_function_that_steps_gets_the_scaler_whatever_its_name(name: str, rewrites_files: Check) -> None:
    rewrites_files(
        {
            "utils.py": f"""
                - def {name}(optimizer):
                -     optimizer.step()
                + def {name}(optimizer, scaler):
                +     scaler.step(optimizer)
            """,
            "main.py": f"""
                  import torch
                  from utils import {name}

                  model = torch.nn.Linear(2, 2).cuda()
                ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  for x, y in loader:
                      optimizer.zero_grad()
                -     torch.nn.functional.mse_loss(model(x), y).backward()
                +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +         loss = torch.nn.functional.mse_loss(model(x), y)
                +     scaler.scale(loss).backward()
                -     {name}(optimizer)
                +     {name}(optimizer, scaler)
                +     scaler.update()
            """,
        },
    )


UNCALLED = {
    "engine.py": """
          import torch

        - def train_one_epoch(model, optimizer, loader):
        + def train_one_epoch(model, optimizer, scaler, loader):
              for x, y in loader:
        ~         loss = torch.nn.functional.mse_loss(model(x), y)
        ~         STEP
    """,
    "many.py": """
          from engine import train_one_epoch

        - def train(model, optimizer, loader, epochs):
        + def train(model, optimizer, scaler, loader, epochs):
              for _ in range(epochs):
        -         train_one_epoch(model, optimizer, loader)
        +         train_one_epoch(model, optimizer, scaler, loader)
    """,
    "main.py": """
          import torch
          from engine import train_one_epoch
          from many import train

          model = torch.nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - train_one_epoch(model, optimizer, loader)
        + train_one_epoch(model, optimizer, scaler, loader)
    """,
}


def test_who_is_never_called_hands_a_scaler_on_as_well(rewrites_files: Check) -> None:
    rewrites_files(UNCALLED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def train(", "def test_train("),
        ("def train(", "@register\ndef train("),
        (
            "def train(model, optimizer, loader, epochs):",
            "from frame import Task\nclass Mine(Task):\n  def step(self, model, optimizer, loader, epochs):",
        ),
    ],
    ids=["by pytest", "by who decorates it", "by a framework"],
)
def test_who_may_be_called_unseen_keeps_a_step_in_float32(tmp_path: Path, before: str, after: str) -> None:
    findings = _in_float32(tmp_path, UNCALLED, before, after)
    assert any("no call of" in each.message for each in findings)


def _in_float32(folder: Path, diffs: dict[str, str], before: str, after: str, only: str = "") -> tuple[Finding, ...]:
    """What is said of the original of some diffs with something else in it, of which nothing is moved."""
    for name, text in diffs.items():
        plain = text.replace("~ ", "  ").replace("STEP", "loss.backward(); optimizer.step()")
        original = "\n".join(line[2:] for line in dedent(plain).splitlines() if not line.startswith("+"))
        (folder / name).write_text((original.replace(before, after) if only in ("", name) else original) + "\n")
    outcome = migrate_paths([folder], Settings())
    assert not outcome.changed
    return tuple(outcome.findings)


OVERRIDDEN = {
    "base.py": """
          import torch

          class Basic:
              def __init__(self):
                  self.model = torch.nn.Linear(8, 2)
                  self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def train(self, loader):
                  for x, y in loader:
        -             loss = torch.nn.functional.mse_loss(self.model(x), y)
        -             self.optimize(self.optimizer, loss)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 loss = torch.nn.functional.mse_loss(self.model(x), y)
        +             self.optimize(self.optimizer, self.scaler, loss)

              @staticmethod
        -     def optimize(optimizer, loss):
        +     def optimize(optimizer, scaler, loss):
                  optimizer.zero_grad()
        -         loss.backward()
        -         optimizer.step()
        +         scaler.scale(loss).backward()
        +         scaler.step(optimizer)
        +         scaler.update()
    """,
    "main.py": """
          import torch
          from base import Basic

          class Clipped(Basic):
              @staticmethod
        -     def optimize(optimizer, loss):
        +     def optimize(optimizer, scaler, loss):
                  optimizer.zero_grad()
        -         loss.backward()
        +         scaler.scale(loss).backward()
        +         scaler.unscale_(optimizer)
                  torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 5.0)
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()

          Clipped().train(loader)
          Basic().train(loader)
    """,
}


def test_what_overrides_a_step_moves_with_it(rewrites_files: Check) -> None:
    rewrites_files(OVERRIDDEN)


def test_what_overrides_a_step_and_cannot_move_keeps_it_in_float32(tmp_path: Path) -> None:
    findings = _in_float32(tmp_path, OVERRIDDEN, "optimizer.step()", "optimizer.step(lambda: 0.0)", only="main.py")
    assert len([each for each in findings if "cannot be used with a loss scaler" in each.message]) == 2


# A folder of a package, under another name: nothing in it is what `kge.model` stands for.
OF_A_PACKAGE = """\
import torch
from kge.model import Model


def main():
    model = Model().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        model.train_step(model, optimizer, x.cuda())
"""
ITS_MODEL = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

    @staticmethod
    def train_step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
"""


def test_a_step_and_its_caller_change_together_where_no_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(OF_A_PACKAGE)
    (tmp_path / "model.py").write_text(ITS_MODEL)
    outcome = migrate_paths([tmp_path], Settings())
    assert [each.kind for each in outcome.findings if each.kind in (Kind.ERROR, Kind.LEFT)] == []
    after = {each.source.path.stem: each.after for each in outcome.changed}
    assert "def train_step(model, optimizer, scaler, x):" in after["model"]
    assert "model.train_step(model, optimizer, scaler, x.cuda())" in after["run"]


def test_a_step_is_left_with_a_caller_that_cannot_be_written_where_no_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(OF_A_PACKAGE + "\n\n\\\nmain()\n")  # the line would not stay what it is
    (tmp_path / "model.py").write_text(ITS_MODEL)
    outcome = migrate_paths([tmp_path], Settings())
    assert outcome.changed == ()
    assert {Path(each.path).stem: each.code for each in outcome.findings} == {"run": "AMP002", "model": "AMP002"}


def test_every_caller_makes_its_own_scaler(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch

                - def train(model, optimizer, loader):
                + def train(model, optimizer, scaler, loader):
                      for x, y in loader:
                ~         loss = torch.nn.functional.mse_loss(model(x), y)
                ~         STEP
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
                ~     EPOCH
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


def test_function_that_another_file_registers_is_left(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                import torch
                def train(model, optimizer, loader):
                    EPOCH
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
                    EPOCH
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
                + def train(model, optimizer, scaler, x):
                ~     loss = model(x).mean()
                ~     STEP
                """,
            "main.py": """
                  import torch
                  from engine import train as train_step

                  model = torch.nn.Linear(2, 2)
                ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                - train_step(model, optimizer, x)
                + train_step(model, optimizer, scaler, x)
                """,
        }
    )


def test_method_that_saves_takes_the_scaler_in_every_call_where_the_class_of_the_object_is_seen(
    rewrites_files: Check,
) -> None:
    rewrites_files(
        {
            "nets.py": """
                  import torch

                  class Net(torch.nn.Linear):
                -     def save(self, path, optimizer):
                -         torch.save({"optimizer": optimizer.state_dict()}, path)
                -
                -     def backup(self, optimizer):
                -         self.save("backup.pt", optimizer)
                +     def save(self, path, optimizer, scaler):
                +         torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)
                +
                +     def backup(self, optimizer, scaler):
                +         self.save("backup.pt", optimizer, scaler)

                  class Plot:
                      def save(self, path, name):
                          pass
            """,
            "main.py": """
                  import torch
                  from nets import Net, Plot

                  def train(loader, criterion):
                      model = Net(2, 2)
                      model = model.cuda()
                      plot = Plot()
                ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                      for x, y in loader:
                          optimizer.zero_grad()
                ~         loss = criterion(model(x), y)
                ~         loss.backward()
                -         optimizer.step()
                +         scaler.step(optimizer)
                -     model.save("net.pt", optimizer)
                -     model.backup(optimizer)
                +         scaler.update()
                +     model.save("net.pt", optimizer, scaler)
                +     model.backup(optimizer, scaler)
                      plot.save("losses.png", "loss")
            """,
        },
    )


def test_method_that_saves_takes_the_scaler_with_those_that_its_calls_may_be_of(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "nets.py": """
                  import torch

                  class Net(torch.nn.Linear):
                -     def save(self, path, optimizer):
                -         torch.save({"optimizer": optimizer.state_dict()}, path)
                +     def save(self, path, optimizer, scaler):
                +         torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, path)

                -     def backup(self, optimizer):
                -         self.save("backup.pt", optimizer)
                +     def backup(self, optimizer, scaler):
                +         self.save("backup.pt", optimizer, scaler)

                  class Plot:
                -     def save(self, path, name):
                +     def save(self, path, name, scaler):
                          pass
            """,
            "main.py": """
                  import torch
                  import nets

                  def train(name, loader, criterion):
                      model = getattr(nets, name)(2, 2)
                ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                      for x, y in loader:
                ~         loss = criterion(model(x), y)
                ~         STEP
                -     model.save("net.pt", optimizer)
                -     model.backup(optimizer)
                +     model.save("net.pt", optimizer, scaler)
                +     model.backup(optimizer, scaler)
            """,
        },
    )


def test_every_file_that_changes_is_told(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        "import torch\nclass Base:\n    def __init__(self, net):\n        self.net = net\n"
        "        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    def save(self, path):\n        torch.save({'optimizer': self.optimizer.state_dict()}, path)\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom base import Base\nclass Derived(Base):\n    def step(self, x, y):\n"
        "        loss = torch.nn.functional.cross_entropy(self.net(x), y)\n"
        "        loss.backward()\n        self.optimizer.step()\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    assert {each.source.path.name for each in outcome.changed} == {"base.py", "train.py"}
    told = [(Path(each.path).name, each.line, each.kind, each.message.rpartition(": ")[2]) for each in outcome.findings]
    assert told == [
        ("base.py", 5, Kind.NOTE, "a GradScaler is made for it"),
        ("base.py", 7, Kind.NOTE, "the GradScaler's state is kept in checkpoints"),
        ("train.py", 6, Kind.MIGRATED, "training step moved to float16 autocast with self.scaler"),
    ]


TASK = """
import torch
{head}

class Task({base}):
    def make(self):
        self.model = torch.nn.Linear(2, 2).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, x):
        loss = self.model(x).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
OTHER = """
{head}

class Other({base}):
    def prepare(self):
        {says}
"""


@pytest.mark.parametrize(("says", "name"), [("self.scaler = print", "self.grad_scaler"), ("pass", "self.scaler")])
@pytest.mark.parametrize("is_base", [True, False], ids=["base", "derived"])
def test_scaler_takes_no_name_of_a_class_in_another_file(tmp_path: Path, is_base: bool, says: str, name: str) -> None:
    task = TASK.format(head="from other import Other" if is_base else "", base="Other" if is_base else "")
    other = OTHER.format(head="" if is_base else "from task import Task", base="" if is_base else "Task", says=says)
    (tmp_path / "task.py").write_text(task)
    (tmp_path / "other.py").write_text(other)
    (changed,) = migrate_paths([tmp_path], Settings()).changed
    assert f'{name} = torch.amp.GradScaler("cuda")' in changed.after


def test_a_unit_test_hands_a_scaler_that_is_off_to_what_a_script_trains_by(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
              import torch

            - def train(model, loader, optimizer, criterion, device):
            + def train(model, loader, optimizer, scaler, criterion, device):
                  for x, y in loader:
                      x, y = x.to(device), y.to(device)
            -         loss = criterion(model(x), y)
            +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +             loss = criterion(model(x), y)
                      optimizer.zero_grad()
            -         loss.backward()
            -         optimizer.step()
            +         scaler.scale(loss).backward()
            +         scaler.step(optimizer)
            +         scaler.update()
                  return loss.item()
            """,
            "main.py": """
              import torch
              from torch import nn
              import engine

              def main(loader):
                  device = torch.device("cuda")
                  model = nn.Linear(8, 2).to(device)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            +     scaler = torch.amp.GradScaler("cuda")
            -     engine.train(model, loader, optimizer, nn.CrossEntropyLoss(), device)
            +     engine.train(model, loader, optimizer, scaler, nn.CrossEntropyLoss(), device)
            """,
            "tests/test_engine.py": """
              import torch
              from torch import nn
              import engine

              def test_loss_goes_down():
                  model = nn.Linear(8, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            +     scaler = torch.amp.GradScaler("cuda", enabled=False)
                  data = [(torch.randn(4, 8), torch.randint(0, 2, (4,)))] * 20
            -     first = engine.train(model, data[:1], optimizer, nn.CrossEntropyLoss(), torch.device("cpu"))
            -     last = engine.train(model, data, optimizer, nn.CrossEntropyLoss(), torch.device("cpu"))
            +     first = engine.train(model, data[:1], optimizer, scaler, nn.CrossEntropyLoss(), torch.device("cpu"))
            +     last = engine.train(model, data, optimizer, scaler, nn.CrossEntropyLoss(), torch.device("cpu"))
                  assert last < first
            """,
        }
    )


def test_torch_that_a_star_import_brings_is_not_imported_again(rewrites_files: Check) -> None:
    step = """
          {}

        ~ MODEL
          for x, y in loader:
        ~     loss = nn.functional.mse_loss(model(x), y)
        ~     STEP
    """
    for text in (step.format("from settings import *"), step.format("from settings import *\n          import torch")):
        rewrites_files({"settings.py": "\n          import torch\n          from torch import nn\n", "train.py": text})
