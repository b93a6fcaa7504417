"""Apex steps in functions that nobody calls: they go the way of the script that they stand in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

DEAD = """
~ APEX
- def train_last_year(model, optimizer, loader):
+ def train_last_year(model, optimizer, scaler, loader):
      APEX_STEPS

- def all_last_year(model, optimizer, loader):
+ def all_last_year(model, optimizer, scaler, loader):
-     train_last_year(model, optimizer, loader)
+     train_last_year(model, optimizer, scaler, loader)
-     torch.save({"optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")
+     torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")

  def main(loader):
      MODEL
~     INITIALIZE
~     APEX_EPOCH
""".replace("      APEX_STEPS", "~     APEX_EPOCH")


def test_step_that_nobody_calls_is_given_a_scaler_as_well(rewrites: Check) -> None:
    plan = rewrites(DEAD)
    said = [each for each in plan.findings if "whoever calls it passes a GradScaler" in each.message]
    assert [(each.code, each.message.split("()")[0]) for each in said] == [("AMP210", "no call of all_last_year")]


def test_function_that_nobody_calls_and_that_takes_a_scaler_already_is_not_told(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp

        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        APEX_EPOCH

        def keep(path, optimizer, loss_scaler):
            torch.save({"optimizer": optimizer.state_dict(), "scaler": loss_scaler.state_dict()}, path)
        """
    )
    assert "scaler.step(optimizer)" in plan.after
    assert "def keep(path, optimizer, loss_scaler):" in plan.after
    assert not [each for each in plan.findings if "whoever calls it passes a GradScaler" in each.message]


def test_step_that_nobody_calls_where_nothing_makes_a_scaler(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp

        def prepare(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            return model, optimizer

        def train(model, optimizer, loader):
            APEX_EPOCH
        """
    )
    assert any("no call of train() is among the files" in each.message for each in plan.findings)
    assert "from amp_shim import amp" in plan.after


MAIN = """
import torch
from engine import Trainer, train
from apex import amp

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer)
train(model, optimizer, [])
"""
ENGINE = """
from apex import amp

def train(model, optimizer, loader):
    for x in loader:
        with amp.scale_loss(model(x).mean(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()

def train_more(model, optimizer, loader):
    for x in loader:
        with amp.scale_loss(model(x).mean(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()

class Trainer:
    def train_again(self, model, optimizer, loader):
        train(model, optimizer, loader)
"""


@pytest.mark.parametrize(
    "files",
    [
        {"engine.py": ENGINE + "\n__all__ = ['train', 'train_more']\n"},
        {"engine.py": ENGINE + "\ndef get(name):\n    return globals()[name]\n"},
        {"many.py": "import engine\n\ndef get(kind):\n    return getattr(engine, f'train_{kind}')\n"},
        {"pkg/__init__.py": "from engine import train_more\n"},
        {"engine.py": ENGINE.replace("def train_more", "@register\ndef train_more")},
    ],
    ids=["__all__", "globals", "getattr", "package", "decorator"],
)
def test_step_that_others_may_call_keeps_its_script_on_the_shim(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in {"main.py": MAIN, "engine.py": ENGINE, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    assert all("from amp_shim import amp" in each.after for each in outcome.changed)
    assert any("no call of train_more() is among the files" in each.message for each in outcome.findings)


def test_step_that_others_import_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN.replace("Trainer", "train_more"))
    (tmp_path / "engine.py").write_text(ENGINE)
    outcome = migrate_paths([tmp_path], Settings())
    assert ["amp_shim" in each.after for each in outcome.changed] == [False, False]
    assert "def train_more(model, optimizer, scaler, loader):" in outcome.changed[0].after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self, opts, **parts", "self, opts, scaler: torch.amp.GradScaler, **parts"),
        ("self, parts, opts=None", "self, parts, scaler: torch.amp.GradScaler, opts=None"),
    ],
)
def test_object_that_nobody_makes_takes_a_scaler_from_whoever_does(rewrites: Check, before: str, after: str) -> None:
    plan = rewrites(f"""
        ~ APEX
          class Restorer:
        -     def __init__({before}):
        +     def __init__({after}):
                  'Saves what it is given.'
        +         self.scaler = scaler
                  self.parts = parts
              def step(self):
                  self.save("last.pt")
              def save(self, path):
                  state = {{k: v.state_dict() for k, v in self.parts.items()}}
        -         state["amp"] = amp.state_dict()
        +         state["scaler"] = self.scaler.state_dict()
                  torch.save(state, path)

          def main(loader):
              MODEL
        ~     INITIALIZE
        ~     APEX_EPOCH
        """)
    said = [each.message for each in plan.findings if each.code == "AMP210"]
    assert (
        "no call of Restorer() is among the files that were given: whoever calls it passes a GradScaler from now on"
        in said
    )


def test_function_that_nobody_calls_saves_the_scaler_of_whoever_does(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
        - def save(parts, path):
        + def save(parts, path, scaler: torch.amp.GradScaler):
        -     torch.save({"parts": parts, "amp": amp.state_dict()}, path)
        +     torch.save({"parts": parts, "scaler": scaler.state_dict()}, path)

          def main(loader):
              MODEL
        ~     INITIALIZE
        ~     APEX_EPOCH
        """
    )


@pytest.mark.parametrize(
    "more",
    [
        "Restorer({}).save('last.pt')",
        "class Other(Restorer):\n    pass\n\nOther({}).save('last.pt')",
        "__all__ = ['Restorer']",
        "def get(name):\n    return globals()[name]",
        "RESTORERS = {'plain': Restorer}",
    ],
    ids=["made", "derived", "__all__", "globals", "value"],
)
def test_object_that_somebody_may_make_keeps_its_script_on_the_shim(more: str, migrate: Check) -> None:
    text = """
        from apex import amp

        class Restorer:
            def __init__(self, parts):
                self.parts = parts
            def save(self, path):
                torch.save({"parts": self.parts, "amp": amp.state_dict()}, path)

        MORE
        def main(loader):
            MODEL
            model, optimizer = amp.initialize(model, optimizer)
            APEX_EPOCH
        """
    assert "from amp_shim import amp" in migrate(text.replace("MORE", more.replace("\n", "\n        "))).after
