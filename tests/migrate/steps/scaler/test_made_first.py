"""A scaler is made before it is used, on every way on which the original runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from textwrap import indent
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

Check = Callable[..., Any]
HEAD = "import torch\nfrom torch import nn\n\n"
TRAIN = """\
def train(net, loader, opt):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
"""
STEP = """\
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
MAKE = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
SIMPLE = (MAKE, MAKE, "opt = None\n", STEP, STEP, "train(net, loader, opt)\n")
HEADS = (
    *("if a:\n", "if not a:\n", "if b:\n", "if opt:\n", "if opt is not None:\n", "if opt is None:\n"),
    *("for _ in range(a):\n", "with lock:\n", "while b:\n    b -= 1\n", "try:\n"),
)


def block(choose: random.Random, depth: int) -> str:
    """Some statements that make an optimizer and train, at random."""
    return "".join(_statement(choose, depth) for _ in range(choose.randint(1, 3)))


def _statement(choose: random.Random, depth: int) -> str:
    if not depth or choose.random() < 0.45:
        return choose.choice(SIMPLE)
    head = choose.choice(HEADS)
    text = head + indent(block(choose, depth - 1), "    ")
    if head == "try:\n":
        return text + choose.choice(("finally:\n", "except OSError:\n")) + indent(block(choose, 0), "    ")
    has_other = not head.startswith("with") and choose.random() < 0.4
    return text + ("else:\n" + indent(block(choose, depth - 1), "    ") if has_other else "")


def outcomes(text: str) -> list[Exception | None]:
    """What becomes of the calls of a program, where there is no PyTorch: an error, or nothing."""
    return [outcome(text, a, b) for a in (0, 1) for b in (0, 1)]


def outcome(text: str, a: int, b: int) -> Exception | None:
    names: dict[str, Any] = {}
    with patch.dict(sys.modules, {"torch": MagicMock()}):
        exec(compile(text, "program", "exec"), names)
        try:
            names["main"](MagicMock(), [(1, 2)], MagicMock(), a, b)
        except (AttributeError, NameError) as error:
            return error
    return None


@pytest.mark.parametrize("seed", [1, 2, 3, 20, 44, 72])
def test_random_branches(seed: int) -> None:
    choose = random.Random(seed)
    body = block(choose, 2) + block(choose, 2)
    before = f"{HEAD}{TRAIN}\ndef main(net, loader, lock, a, b):\n" + indent(body, "    ")
    plan = migrate_text(before, Settings())
    assert not [each for each in plan.findings if each.kind is Kind.ERROR]
    for was, now in zip(outcomes(before), outcomes(plan.after), strict=True):
        assert was is not None or now is None, f"{now}\n{plan.after}"


def test_optimizer_that_one_branch_makes_and_another_collects(rewrites: Check) -> None:
    rewrites(
        """
        - def train(net, loader, opt):
        + def train(net, loader, opt, scaler):
              for x, y in loader:
                  opt.zero_grad()
        ~         loss = nn.functional.cross_entropy(net(x), y)
        ~         loss.backward()
        -         opt.step()
        +         scaler.step(opt)
        +         scaler.update()


          def main(args, loader):
              net = nn.Linear(4, 4).cuda()
        +     scaler = torch.amp.GradScaler("cuda")
              if args.kind == "plain":
                  opt = torch.optim.SGD(net.parameters(), lr=0.1)
              else:
                  opt = args.optimizer
        -     train(net, loader, opt)
        +     train(net, loader, opt, scaler)
        """
    )


def test_optimizer_that_is_made_on_demand(rewrites: Check) -> None:
    rewrites(
        """
          def run(net, pretrain):
        ~     optimizer = None
              if pretrain:
                  optimizer = torch.optim.Adam(net.parameters())
        ~         loss = nn.functional.cross_entropy(net(x), y)
        ~         loss.backward()
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()
                  tidy(net)
              if optimizer is None:
                  optimizer = torch.optim.Adam(net.parameters())
        ~     loss = nn.functional.cross_entropy(net(x), y)
        ~     loss.backward()
        -     optimizer.step()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_second_optimizer_that_is_there_on_some_ways(rewrites: Check) -> None:
    rewrites(
        """
          def fit(first, second):
              one = torch.optim.Adam(first.parameters())
        +     scaler = torch.amp.GradScaler("cuda")
              if second is not None:
                  other = torch.optim.Adam(second.parameters())
              for x, y in loader:
                  one.zero_grad()
        ~         loss = nn.functional.cross_entropy(first(x), y)
        ~         loss.backward()
        -         one.step()
        +         scaler.step(one)
                  if second:
                      other.zero_grad()
        ~             loss = nn.functional.cross_entropy(second(x), y)
        ~             loss.backward()
        -             other.step()
        +             scaler.step(other)
        +         scaler.update()
        """
    )


def test_what_needs_the_optimizer_finds_the_scaler_in_its_branch(rewrites: Check) -> None:
    rewrites(
        """
          def main(net, loader, is_training):
              optimizer = None
              if is_training:
        ~         optimizer = torch.optim.Adam(net.parameters())
              for x, y in loader:
        ~         loss = nn.functional.cross_entropy(net(x), y)
                  if optimizer is not None:
        -             loss.backward()
        -             optimizer.step()
        +             scaler.scale(loss).backward()
        +             scaler.step(optimizer)
        +             scaler.update()
                      optimizer.zero_grad()
        """
    )


def test_object_whose_methods_make_optimizers_has_its_scaler_from_the_start(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer(Base):
              def __init__(self, net):
                  super().__init__()
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.net = net

              def slowly(self):
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

              def fast(self):
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1.0)

              def step(self, x, y):
        ~         loss = nn.functional.cross_entropy(self.net(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_object_without_a_constructor_whose_methods_make_optimizers(leaves: Check) -> None:
    leaves(
        """
        class Trainer(Base):
            def slowly(self):
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def fast(self):
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1.0)

            def step(self, x, y):
                loss = nn.functional.cross_entropy(self.net(x), y)
                loss.backward()
                self.optimizer.step()
        """,
        "Trainer makes its optimizers in several methods",
    )


def test_object_without_a_constructor_with_an_optimizer_for_each_of_two_steps(leaves: Check) -> None:
    leaves(
        """
        class Trainer(Base):
            def start(self, rate):
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

            def start_test(self, rate):
                self.test_optimizer = torch.optim.SGD(self.net.parameters(), lr=1.0)

            def step(self, x, y):
                loss = nn.functional.cross_entropy(self.net(x), y)
                loss.backward()
                self.optimizer.step()

            def test_step(self, x, y):
                loss = nn.functional.cross_entropy(self.net(x), y)
                loss.backward()
                self.test_optimizer.step()
        """,
        "Trainer makes its optimizers in several methods",
    )


@pytest.mark.parametrize(
    "forward",
    [
        "self.test_net(x) if test else self.net(x)",
        "self.net(x) if not test else self.test_net(x)",
        "test and self.test_net(x) or self.net(x)",
        "sum(self.test_net(each) for each in x if test) + self.net(x)",
    ],
)
def test_network_that_one_of_two_ways_alone_has(rewrites: Check, forward: str) -> None:
    rewrites(
        f"""
          class Agent:
              def __init__(self, net):
        +         self.scaler = torch.amp.GradScaler("cuda")
                  self.net = net
                  self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

              def start_test(self):
                  self.test_net = copy.deepcopy(self.net)
                  self.test_optimizer = torch.optim.SGD(self.test_net.parameters(), lr=1.0)

              def update(self, x, y, test):
        -         out = {forward}
        -         loss = nn.functional.cross_entropy(out, y)
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = {forward}
        +             loss = nn.functional.cross_entropy(out, y)
                  if test:
                      self.test_optimizer.zero_grad()
        -             loss.backward()
        -             self.test_optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.test_optimizer)
        +             self.scaler.update()
                  else:
                      self.optimizer.zero_grad()
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
        """
    )


def test_method_of_a_derived_class_that_trains(rewrites: Check) -> None:
    rewrites(
        """
          class Base:
              def __init__(self, net):
                  self.net = net

              def prepare(self, rate):
                  if rate:
                      self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate)
                  else:
                      self.optimizer = self.net.optimizer
        +         self.scaler = torch.amp.GradScaler("cuda")

          class Derived(Base):
              def step(self, x, y):
        ~         loss = nn.functional.cross_entropy(self.net(x), y)
        -         loss.backward()
        -         self.optimizer.step()
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


def test_object_that_trains_by_an_optimizer_of_one_method_too(rewrites: Check) -> None:
    rewrites(
        """
          class Editor:
              def __init__(self, net):
                  self.net = net
                  self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        +         self.scaler = torch.amp.GradScaler("cuda")

              def run(self, code):
                  for x, y in loader:
                      self.optimizer.zero_grad()
        ~             loss = nn.functional.cross_entropy(self.net(x), y)
        -             loss.backward()
        -             self.optimizer.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(self.optimizer)
        +             self.scaler.update()
                  other = torch.optim.Adam([code], lr=0.1)
                  for x, y in loader:
        ~             loss = nn.functional.cross_entropy(self.net(code), y)
        -             loss.backward()
        -             other.step()
        +             self.scaler.scale(loss).backward()
        +             self.scaler.step(other)
        +             self.scaler.update()
                      other.zero_grad()
        """
    )


def test_optimizer_that_is_made_behind_the_backward(rewrites: Check) -> None:
    rewrites(
        """
          def check(net, x, y):
        ~     loss = nn.functional.mse_loss(net(x), y)
        +     scaler = torch.amp.GradScaler("cuda")
        ~     loss.backward()
              optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        -     optimizer.step()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_one_of_two_optimizers_that_is_made_behind_the_backward(rewrites: Check) -> None:
    rewrites(
        """
          def check(first, second, x, y):
              one = torch.optim.SGD(first.parameters(), lr=0.1)
        ~     loss = nn.functional.mse_loss(second(first(x)), y)
        +     scaler = torch.amp.GradScaler("cuda")
        ~     loss.backward()
              two = torch.optim.SGD(second.parameters(), lr=0.1)
        -     one.step()
        -     two.step()
        +     scaler.step(one)
        +     scaler.step(two)
        +     scaler.update()
        """
    )


RESUMED = """
- from apex import amp
-
  class Model(nn.Module):
      def __init__(self, fp16):
          super().__init__()
          self.body = nn.Linear(2, 2).cuda()
          self.optimizer = torch.optim.SGD(self.body.parameters(), lr=0.1)
-         if fp16:
-             self.body, self.optimizer = amp.initialize(self.body, self.optimizer, opt_level="O1")


  class Trainer:
      def __init__(self, fp16):
          self.net, self.fp16 = None, fp16

      def start(self):
          self.net = Model(self.fp16)
+         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(self.fp16))

      def load(self, data):
          try:
              self.net.load_state_dict(data["net"])
          except RuntimeError:
              print("another network")
              {handled}
          if {asked}:
-             amp.load_state_dict(data["amp"])
+             if data.get("scaler"):
+                 self.scaler.load_state_dict(data["scaler"])

      def step(self, x):
          if self.net is None:
              self.start()
          self.net.optimizer.zero_grad()
-         loss = self.net.body(x).mean()
-         if self.fp16:
-             with amp.scale_loss(loss, self.net.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         self.net.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.fp16)):
+             loss = self.net.body(x).mean()
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.net.optimizer)
+         self.scaler.update()
"""


@pytest.mark.parametrize(
    ("handled", "asked"),
    [("raise", "self.fp16"), ("return", "self.fp16"), ("pass", "self.fp16 and self.net.is_ready")],
)
def test_network_that_is_read_in_front_of_what_restores_the_scaler(rewrites: Check, handled: str, asked: str) -> None:
    rewrites(RESUMED.format(handled=handled, asked=asked))


def test_network_that_need_not_have_been_read(migrate: Check) -> None:
    """Where what went wrong is only printed, there need be no network yet, and no scaler."""
    before = RESUMED.format(handled="pass", asked="self.fp16").splitlines()
    text = "\n".join(line.replace("-", " ", 1) for line in before if not line.startswith("+"))
    plan = migrate(text)
    assert "from amp_shim import amp" in plan.after
    assert any("cannot be said where the scaler would be made" in each.message for each in plan.findings)


OPTIMIZERS = """\
import torch
from torch import nn, optim


class Trainer:
    def __init__(self, a, b, clip):
{made}
        self.clip = clip

    def step(self, x):
        self.first.zero_grad()
        loss = self.a(x).mean()
        loss.backward()
        self.first.step()
"""
MAKING = """\
self.a, self.b = a, b
self.first = optim.Adam(a.parameters())
{between}
self.last = optim.Adam(b.parameters())
"""
SCALER = 'self.scaler = torch.amp.GradScaler("cuda")'


@pytest.mark.parametrize("between", ["", "# The other one.", "assert clip > 0", "assert a is not b, clip"])
def test_a_scaler_is_made_behind_optimizers_that_are_made_one_after_the_other(between: str) -> None:
    making = MAKING.format(between=between)
    after = migrate_text(OPTIMIZERS.format(made=indent(making, " " * 8)), Settings()).after
    assert f"        self.last = optim.Adam(b.parameters())\n        {SCALER}\n" in after


def test_so_it_is_where_a_function_makes_both() -> None:
    making = MAKING.format(between="").replace("optim.Adam", "self.make")
    text = OPTIMIZERS.format(made=indent(making, " " * 8)) + "\n    def make(self, p):\n        return optim.Adam(p)\n"
    after = migrate_text(text, Settings()).after
    assert f"        self.last = self.make(b.parameters())\n        {SCALER}\n" in after
    other = migrate_text(text.replace("self.last = self.make(", "self.last = self.keep("), Settings()).after
    assert f"        self.first = self.make(a.parameters())\n        {SCALER}\n" in other


@pytest.mark.parametrize("between", ["self.clip = clip", "a.reset()", "print(self.first)"])
def test_other_statements_between_them_stay_behind_the_scaler(between: str) -> None:
    making = MAKING.format(between=between)
    after = migrate_text(OPTIMIZERS.format(made=indent(making, " " * 8)), Settings()).after
    assert f"        self.first = optim.Adam(a.parameters())\n        {SCALER}\n        {between}\n" in after


def test_what_a_constructor_asserts_comes_before_the_scaler_of_the_optimizer_that_it_is_given() -> None:
    made = "self.a = nn.Linear(8, 1)\nself.first = b\nassert clip > 0\nassert a\n"
    after = migrate_text(OPTIMIZERS.format(made=indent(made, " " * 8)), Settings()).after
    assert f"        assert a\n        {SCALER}\n" in after.replace("\n\n", "\n")
