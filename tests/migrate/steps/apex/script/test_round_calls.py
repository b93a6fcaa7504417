"""Evaluation that cannot know whether Apex casts in it, and has its region round those calls that can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

SCRIPT = """
import argparse
import torch

def train(args, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.fp16:
        from apex import amp
        model, optimizer = amp.initialize(model, optimizer, opt_level={level})
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        {within}

def evaluate(model, loader):
    {body}

def main(loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--do_train", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(8, 3).cuda()
    if args.do_train:
        train(args, model, loader)
        {trained}
    {behind}

main([])
"""
BODY = "return [model(x).argmax(1) for x in loader]"
CALL = "print(evaluate(model, loader))"


def regions(
    migrate: Check,
    *,
    within: str = "pass",
    trained: str = "pass",
    behind: str = CALL,
    body: str = BODY,
    level: str = '"O1"',
) -> tuple[list[str], bool]:
    """What the statements with `evaluate` are asked for, and whether something is told to stay in float32."""
    text = SCRIPT.format(within=within, trained=trained, behind=behind, body=body, level=level)
    plan = migrate(text, head="")
    lines = plan.after.splitlines()
    calls = (index for index, line in enumerate(lines) if "evaluate(" in line and "def " not in line)
    around = (lines[index - 1].strip() for index in calls)
    asked = [each.partition("enabled=")[2].removesuffix("):") if "autocast" in each else "" for each in around]
    return asked, any(each.code == "AMP211" for each in plan.findings)


def test_a_call_in_the_training_and_one_without_it_ask_each_for_its_own(migrate: Check) -> None:
    found = regions(migrate, within=CALL, trained=CALL)
    assert found == (["args.fp16", "args.fp16", "args.do_train and args.fp16"], False)


def test_a_loop_behind_asks_for_what_was_done_before_it(migrate: Check) -> None:
    loop = f"for _ in range(3):\n        {CALL}"
    assert regions(migrate, within=CALL, behind=loop) == (["args.fp16", "args.do_train and args.fp16"], False)


@pytest.mark.parametrize(
    "behind",
    [
        f"args.do_train = False\n    {CALL}",
        f"args = parser.parse_args()\n    {CALL}",
        f"train(args, model, loader)\n    {CALL}",
        f"for _ in range(2):\n        if args.do_train:\n            train(args, model, loader)\n        {CALL}",
    ],
)
def test_what_may_have_changed_since_is_not_asked(behind: str, migrate: Check) -> None:
    assert regions(migrate, within=CALL, behind=behind) == (["args.fp16", ""], True)


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        (f"if evaluate(model, loader):\n        {CALL}", False),
        ("print(evaluate(model, x) for x in loader)", False),
        ("print(evaluate)", True),
    ],
)
def test_no_call_has_a_region_where_one_of_them_can_have_none(behind: str, told: bool, migrate: Check) -> None:
    asked, is_told = regions(migrate, within=CALL, behind=behind)
    assert ({*asked}, is_told) == ({""}, told)


@pytest.mark.parametrize(
    "body",
    [
        "for x in loader:\n        out = model(x)\n        yield out.argmax(1)",
        "for name in args:\n        model.load_state_dict(torch.load(name))\n        print(model(loader[0]))",
    ],
)
def test_what_runs_later_or_loads_weights_has_no_region_round_it(body: str, migrate: Check) -> None:
    asked, is_told = regions(migrate, within=CALL, body=body)
    assert (asked, is_told) == (["", ""], False)


def test_weights_in_float16_cast_nothing_beside_the_model(migrate: Check) -> None:
    assert regions(migrate, within=CALL, level='"O2"') == (["", ""], False)


def test_a_loss_that_autocast_refuses_has_no_region_round_it(migrate: Check) -> None:
    loss = "print(torch.nn.functional.binary_cross_entropy(out, x))"
    body = f"for x in loader:\n        out = model(x).sigmoid()\n        {loss}"
    assert regions(migrate, within=CALL, body=body) == (["", ""], False)


@pytest.mark.parametrize("criterion", ["MSELoss", "BCELoss"])
def test_what_only_the_program_shows_to_be_refused_takes_the_region_and_not_the_training(
    criterion: str, migrate: Check
) -> None:
    body = "for x in loader:\n        out = model(x).sigmoid()\n        print(model.criterion(out, x))"
    made = "self.criterion = make()"
    text = SCRIPT.format(within=CALL, trained="pass", behind=CALL, body=body, level='"O1"')
    net = f"""
def make():
    return torch.nn.{criterion}()

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(8, 8)
        {made}
"""
    plan = migrate("import torch" + net + text.replace("torch.nn.Linear(8, 3)", "Net()"), head="")
    assert "scaler.step(optimizer)" in plan.after
    assert any(each.code == "AMP211" for each in plan.findings) is (criterion == "BCELoss")


@pytest.mark.parametrize(("base", "told"), [("transformers.BertPreTrainedModel", False), ("object", True)])
def test_the_forward_of_a_base_out_of_sight_runs_in_the_region_of_who_calls_that(
    base: str, told: bool, migrate: Check
) -> None:
    net = f"""
import torch
import transformers

class Net({base}):
    def __init__(self, config):
        super().__init__(config)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(x)
"""
    text = SCRIPT.format(within=CALL, trained="pass", behind=CALL, body=BODY, level='"O1"')
    made = 'Net.from_pretrained("bert")'
    after = migrate(net + text.replace("torch.nn.Linear(8, 3)", made), head="")
    assert any(each.code == "AMP211" for each in after.findings) is told
    assert "def __init__(self, config):" in after.after


MODEL = """
  import torch
- from apex import amp


  class Model:
      def __init__(self, config):
          self.net = torch.nn.Linear(8, 3).cuda()
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
-         if config["fp16"]:
-             self.net, self.optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")
+         amp_enabled = bool(config["fp16"])
+         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
          self.config = config

      def update(self, x, y):
-         loss = torch.nn.functional.cross_entropy(self.net(x), y)
-         if self.config["fp16"]:
-             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+             loss = torch.nn.functional.cross_entropy(self.net(x), y)
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
          self.optimizer.zero_grad()

      def predict(self, x):
          self.net.eval()
-         return self.net(x).argmax(1)
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+             return self.net(x).argmax(1)
"""
INFERENCE = """
  import torch


  def evaluate(model, data):
      with torch.no_grad():
          return sum((model.predict(x) == y).sum().item() for x, y in data)
"""
TRAIN = """
  from inference import evaluate
  from model import Model


  def main(config, data):
      model = Model(config)
      for x, y in data:
          model.update(x, y)
      print(evaluate(model, data))
"""


def test_calls_of_what_has_a_region_itself_are_not_said_to_be_float32(rewrites_files: Check) -> None:
    found = rewrites_files({"model.py": MODEL, "inference.py": INFERENCE, "train.py": TRAIN})
    assert "AMP211" not in {each.code for each in found}


TRAINER = """
- from apex import amp
+ import torch


  class Trainer:
      def __init__(self, model, fp16=False):
          self.model, self.fp16 = model, fp16

-     def train(self, loader, optimizer):
+     def train(self, loader, optimizer, scaler):
          for x in loader:
-             loss = self.model(x).mean()
+             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=scaler.is_enabled()):
+                 loss = self.model(x).mean()
              optimizer.zero_grad()
-             if self.fp16:
-                 with amp.scale_loss(loss, optimizer) as scaled_loss:
-                     scaled_loss.backward()
-             else:
-                 loss.backward()
-             optimizer.step()
+             scaler.scale(loss).backward()
+             scaler.step(optimizer)
+             scaler.update()
"""
EVALUATOR = """
  import torch


  def evaluate(model, loader):
      model.eval()
      with torch.no_grad():
          return [model(x) for x in loader]
"""
SCRIPTS = """
  import torch
- from apex import amp
  from evaluator import evaluate
  from trainer import Trainer


  def {name}:
      model = torch.nn.Linear(2, 2).cuda()
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
-     if args.fp16:
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
{between}+     scaler = torch.amp.GradScaler("cuda", enabled=bool(args.fp16))
-     Trainer(model, fp16=args.fp16).train(loader, optimizer)
-     print(evaluate(model, loader))
+     Trainer(model, fp16=args.fp16).train(loader, optimizer, scaler)
+     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(args.fp16)):
+         print(evaluate(model, loader))
"""
BETWEEN = """      return model, optimizer


  def main(args, loader):
      model, optimizer = create(args)
"""


def test_a_script_that_initializes_in_a_helper_says_nothing_of_one_that_does_so_itself(rewrites_files: Check) -> None:
    found = rewrites_files(
        {
            "trainer.py": TRAINER,
            "evaluator.py": EVALUATOR,
            "adapt.py": SCRIPTS.format(name="create(args)", between=BETWEEN),
            "pretrain.py": SCRIPTS.format(name="main(args, loader)", between=""),
        }
    )
    assert "AMP211" not in {each.code for each in found}
