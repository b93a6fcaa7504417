"""Scripts whose `amp`, optimizer or backward is handed from one file to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TAKER = """
          import torch
          from torch import nn
        - from tools import amp, average
        + from tools import average

          def train(args, model, loader):
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ~     INITIALIZE
        ~     APEX_EPOCH
                  average(loss)
        """
HOLDER = """
          import torch
        - try:
        -     from apex import amp
        -     has_apex = True
        - except ImportError:
        -     has_apex = False

          def average(x):
              return x
        """


@pytest.mark.parametrize("is_star", [False, True])
def test_amp_that_another_file_imports(is_star: bool, rewrites_files: Check) -> None:
    names = "        - from tools import amp, average\n        + from tools import average\n"
    taker = TAKER.replace(names, "          from tools import *\n") if is_star else TAKER
    findings = rewrites_files({"train.py": taker, "tools.py": HOLDER})
    told = [each.message for each in findings if each.path.endswith("tools.py")]
    assert told == ["import of apex.amp is gone: no step here needs it"]


def test_amp_that_other_scripts_take_too_stays_on_the_shim(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "train.py": """
              import torch
              from torch import nn
              from tools import amp

              def train(model, loader):
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  model, optimizer = amp.initialize(model, optimizer, opt_level="O1", cast_model_outputs=torch.float16)
                  APEX_EPOCH
            """,
            "tools.py": """
            - from apex import amp
            + from amp_shim import amp
            """,
        }
    )
    assert [each for each in findings if "cast_model_outputs= of amp.initialize" in each.message]


TRAINER = """
          import torch
        - from apex import amp

          class Trainer:
              def __init__(self, model, optimizer, GIVEN):
                  self.model = model
                  self.optimizer = optimizer
        +         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(SWITCH))
                  self.fp16 = SWITCH

              def train(self, loader):
                  for x, y in loader:
        -             loss = torch.nn.functional.mse_loss(self.model(x), y)
        -             if self.fp16:
        -                 with amp.scale_loss(loss, self.optimizer) as scaled_loss:
        -                     scaled_loss.backward()
        -             else:
        -                 loss.backward()
        -             self.optimizer.step()
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=ON):
        +                 loss = torch.nn.functional.mse_loss(self.model(x), y)
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
        """.replace("ON)", "self.scaler.is_enabled())")
MAIN = """
          import torch
        - from apex import amp
          from trainer import Trainer

          def main(args):
              model = torch.nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
              Trainer(model, optimizer, PASSED).train(args.loader)
        """


@pytest.mark.parametrize(
    ("passed", "given", "switch"), [("args", "args", "args.fp16"), ("half=args.fp16", "half=None", "half")]
)
def test_optimizer_that_a_trainer_keeps(passed: str, given: str, switch: str, rewrites_files: Check) -> None:
    trainer = TRAINER.replace("GIVEN", given).replace("SWITCH", switch)
    rewrites_files({"main.py": MAIN.replace("PASSED", passed), "trainer.py": trainer})


def _given(passed: str) -> dict[str, str]:
    """Both files where the trainer is given the scaler that `main` has made."""
    trainer = TRAINER.replace(
        "      def __init__(self, model, optimizer, GIVEN):",
        "-     def __init__(self, model, optimizer, half):\n"
        "        +     def __init__(self, model, optimizer, scaler, half):",
    ).replace('torch.amp.GradScaler("cuda", enabled=bool(SWITCH))', "scaler")
    main = MAIN.replace(
        "      Trainer(model, optimizer, PASSED).train(args.loader)",
        '+     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))\n'
        f"        -     Trainer(model, optimizer, {passed}).train(args.loader)\n"
        f"        +     Trainer(model, optimizer, scaler, {passed}).train(args.loader)",
    )
    return {"main.py": main, "trainer.py": trainer.replace("SWITCH", "half")}


@pytest.mark.parametrize("passed", ["args.half", "not args.fp16"])
def test_trainer_that_cannot_ask_for_the_switch_is_given_the_scaler(passed: str, rewrites_files: Check) -> None:
    rewrites_files(_given(passed))


def test_trainer_whose_helper_is_called_in_a_branch(rewrites_files: Check) -> None:
    texts = _given("args.fp16")
    branch = """        -     if args.fp16:
        -         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
"""
    helper = """
          def prepare(model, optimizer):
        -     return amp.initialize(model, optimizer, opt_level='O1')
        +     return (model, optimizer) if optimizer is not None else model
        """
    made = '        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))\n'
    in_branch = f"""{made}              if args.fp16:
                  model, optimizer = prepare(model, optimizer)
"""
    assert branch + made in texts["main.py"]
    main = texts["main.py"].replace(branch + made, in_branch).rstrip(" ")
    rewrites_files({**texts, "main.py": main + helper})


def test_backward_that_a_trainer_inherits(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "base.py": """
              import torch
            - from apex import amp

              class Base:
                  def __init__(self, model):
                      self.model = model
                      self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            -         self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")
            +         self.scaler = torch.amp.GradScaler("cuda")

                  def backward(self, loss):
            -         with amp.scale_loss(loss, self.optimizer) as scaled_loss:
            -             scaled_loss.backward()
            +         self.scaler.scale(loss).backward()
            """,
            "train.py": """
              import torch
              from base import Base

              class Trainer(Base):
                  def train(self, loader):
                      for x, y in loader:
                          self.optimizer.zero_grad()
            ~             loss = torch.nn.functional.mse_loss(self.model(x), y)
                          self.backward(loss)
            -             self.optimizer.step()
            +             self.scaler.step(self.optimizer)
            +             self.scaler.update()
            """,
        }
    )


def test_backward_that_others_may_call_is_not_given_a_scaler(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(
        "import torch\nfrom apex import amp\n\nclass Base:\n"
        "    def __init__(self, model):\n        self.model = model\n"
        "        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "        self.model, self.optimizer = amp.initialize(self.model, self.optimizer)\n"
        "    def backward(self, loss):\n        with amp.scale_loss(loss, self.optimizer) as scaled:\n"
        "            scaled.backward()\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom base import Base\n\nclass Trainer(Base):\n    def train(self, loader):\n"
        "        for x, y in loader:\n            loss = torch.nn.functional.mse_loss(self.model(x), y)\n"
        "            self.backward(loss)\n            self.optimizer.step()\n\n"
        "def other(trainer, x):\n    trainer.backward(trainer.model(x).sum())\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    assert all("autocast" not in each.after for each in outcome.changed)


def test_backward_of_a_helper_object(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "manager.py": """
          import torch
        - from apex import amp


          class Manager:
              def __init__(self, args):
                  self.args = args

              def prepare(self, model, optimizer):
        -         if self.args.fp16:
        -             model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
                  return model, optimizer

        -     def backward(self, loss, optimizer):
        -         if self.args.fp16:
        -             with amp.scale_loss(loss, optimizer) as scaled_loss:
        -                 scaled_loss.backward()
        -         else:
        -             loss.backward()
        +     def backward(self, loss, optimizer, scaler):
        +         scaler.scale(loss).backward()
        """,
            "train.py": """
          import torch
          from manager import Manager


          def main(args, loader):
              manager = Manager(args)
              model = torch.nn.Linear(2, 2)
              optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        +     scaler = torch.amp.GradScaler("cuda", enabled=bool(manager.args.fp16))
              manager.prepare(model, optimizer)
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = torch.nn.functional.mse_loss(model(x), y)
        -         manager.backward(loss, optimizer)
        -         optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(manager.args.fp16)):
        +             loss = torch.nn.functional.mse_loss(model(x), y)
        +         manager.backward(loss, optimizer, scaler)
        +         scaler.step(optimizer)
        +         scaler.update()
        """,
        }
    )
    assert not [each for each in findings if each.code == "AMP591"]


CALLBACKS = """\
import torch


def save(step, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


def evaluation(loader):
    def call(step, model, optimizer):
        with torch.no_grad():
            for x in loader:
                print(model(x.cuda()))
    return call


def restore(model, optimizer):
    optimizer.load_state_dict(torch.load("last.pt")["optimizer"])


def show(step, model, optimizer):
    print(step, model)


def standard(loader):
    return [LIST]
"""
CALLING = """\
import torch
from torch import nn
from apex import amp
import callbacks


def train(model, loader, calls):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    callbacks.restore(model, optimizer)
    for step, x in enumerate(loader):
        for call in calls:
            call(step, model, optimizer)
        optimizer.zero_grad()
        with amp.scale_loss(model(x.cuda()).sum(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()


data = [torch.rand(8, 16)]
train(nn.Linear(16, 4).cuda(), data, callbacks.standard(data))
"""


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ("evaluation(loader), save", {("callbacks.py", "AMP611", 5), ("train.py", "AMP211", 13)}),
        ("evaluation(loader)", {("train.py", "AMP211", 13)}),
        ("save, show", {("callbacks.py", "AMP611", 5)}),
        ("show", set()),
    ],
)
def test_callbacks_of_a_list_are_given_no_scaler_and_what_they_lack_is_told(
    tmp_path: Path, listed: str, told: set[tuple[str, str, int]]
) -> None:
    (tmp_path / "callbacks.py").write_text(CALLBACKS.replace("LIST", listed))
    (tmp_path / "train.py").write_text(CALLING)
    result = migrate_paths([tmp_path], Settings())
    assert [each.source.path.name for each in result.changed] == ["train.py"]
    assert "            call(step, model, optimizer)\n" in result.changed[0].after
    assert "scaler.step(optimizer)" in result.changed[0].after
    found = {(Path(each.path).name, each.code, each.line) for each in result.findings}
    assert {each for each in found if each[1] in ("AMP211", "AMP290", "AMP504", "AMP611")} == told
