"""`amp.initialize` under "the first time", in a method that is called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

CLIENT = """
  class Client:
      def __init__(self, model, args):
          self.args = args
          self.model = model
          self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
+         self.scaler = torch.amp.GradScaler("cuda"{enabled})
          self.epoch = 0
          self.ready = False
      def run(self, loader):
          self.model.cuda()
-         if {test}:
-             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
{more}
          for x in loader:
              self.train(x)
      def train(self, x):
          self.epoch += 1
          self.optimizer.zero_grad()
-         loss = self.model(x).mean()
-         with amp.scale_loss(loss, self.optimizer) as scaled:
-             scaled.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16{switch}):
+             loss = self.model(x).mean()
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""
# What is there to be said in the branch beside, and where.
SET = "          self.ready = True"


def client(test: str, more: str = "", enabled: str = "", switch: str = "") -> str:
    lines = CLIENT.format(test=test, more=more, enabled=enabled, switch=switch).splitlines()
    return "~ APEX\n" + "\n".join(each for each in lines if each)


@pytest.mark.parametrize("test", ["self.epoch == 0", "0 == self.epoch"])
def test_counter_that_training_moves_on(test: str, rewrites: Check) -> None:
    rewrites(client(test))


def test_flag_that_is_set_behind(rewrites: Check) -> None:
    rewrites(client("not self.ready", SET))


def test_switch_beside_it_stays_one(rewrites: Check) -> None:
    on = "enabled=bool(self.args.fp16)"
    rewrites(client("self.epoch == 0 and self.args.fp16", enabled=f", {on}", switch=f", {on}"))


def original(old: str, new: str) -> str:
    lines = [each for each in client("self.epoch == 0").splitlines()[1:] if not each.startswith("+")]
    text = "\n".join(each[2:] for each in lines)
    assert old in text
    return f"import torch\nfrom apex import amp\n{text.replace(old, new)}\n"


MADE = "self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
TRAIN = "    def train(self, x):\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Another method may have moved it on before the first call.
        (TRAIN, f"    def skip(self):\n        self.epoch = 1\n{TRAIN}"),
        # Nobody knows whether it holds for a new object, or it does not.
        ("self.epoch = 0", "self.epoch = args.epoch"),
        ("self.epoch = 0", "self.epoch = 1"),
        # The optimizer is not made with the object.
        (
            f"{MADE}\n",
            f"self.make()\n    def make(self):\n        {MADE.replace('(model', '(self.model')}\n        self.n = 1\n",
        ),
    ],
)
def test_test_that_may_not_hold_the_first_time_leaves_the_script_on_the_shim(
    old: str, new: str, migrate: Check
) -> None:
    plan = migrate(original(old, new))
    assert "from amp_shim import amp\n" in plan.after
    told = [finding.message for finding in plan.findings if finding.code == "AMP290"]
    assert any("whether `self.epoch == 0` holds changes while the script trains" in each for each in told), told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # It is what it is before anything is initialized, or where that has failed.
        ("        self.model.cuda()\n", "        self.epoch = self.args.epoch\n"),
    ],
)
def test_test_of_what_is_set_before_is_a_switch(old: str, new: str, migrate: Check) -> None:
    text = original(old, new).replace("        self.epoch += 1\n", "").replace("self.epoch", "self.fp16")
    plan = migrate(text.replace("self.fp16 == 0", "self.fp16"))
    assert 'torch.amp.GradScaler("cuda", enabled=bool(self.fp16))' in plan.after


ROUND = """
  class Trainer:
      def __init__(self, fp16):
          self.ready = False
          self.model = self.optimizer = None
          self.fp16 = fp16
+         self.scaler = torch.amp.GradScaler("cuda", enabled=bool(self.fp16))
          self.steps = 0
      def make(self):
          self.model = nn.Linear(8, 2).cuda()
          self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
          self.prepare()
      def prepare(self):
ASKED
      def load(self, path):
          self.model.load_state_dict(torch.load(path))
          self.ready = False
          self.prepare()
      def step(self, x):
          self.optimizer.zero_grad()
-         loss = self.model(x).mean()
-         if self.fp16:
-             with amp.scale_loss(loss, self.optimizer) as scaled:
-                 scaled.backward()
-         else:
-             loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.fp16)):
+             loss = self.model(x).mean()
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""
INSIDE = """\
          if self.fp16:
              if not self.ready:
-                 self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
                  self.ready = True"""
BEHIND = """\
          if not self.fp16:
              return
          if not self.ready:
-             self.model, self.optimizer = amp.initialize(self.model, self.optimizer)
              self.ready = True"""


@pytest.mark.parametrize("asked", [INSIDE, BEHIND], ids=["inside", "behind"])
def test_switch_round_the_first_time_stays_one_and_loading_asks_again(asked: str, rewrites: Check) -> None:
    rewrites("~ APEX" + ROUND.replace("ASKED", asked))


@pytest.mark.parametrize("more", ["self.ready = True", "self.ready = self.fp16"])
def test_class_that_derives_may_be_ready_before_the_first_time(more: str, migrate: Check) -> None:
    lines = ("~ APEX" + ROUND.replace("ASKED", INSIDE)).splitlines()[1:]
    text = "\n".join(each[2:] for each in lines if not each.startswith("+"))
    derived = f"class Other(Trainer):\n    def make(self):\n        {more}\n        super().make()\n"
    after = migrate(f"from apex import amp\n{text}\n{derived}").after
    assert "from amp_shim import amp\n" in after
