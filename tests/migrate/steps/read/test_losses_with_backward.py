"""What goes backward may be an object of a class of the project: its own `backward()` scales, if it can be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

MOVED = """
  class Losses:
      def __init__(self):
          self.parts = []

      @property
      def total(self):
          return torch.stack(self.parts).sum()

      def add(self, loss):
          self.parts.append(loss)

-     def backward(self):
-         self.total.backward()
+     def backward(self, scaler):
+         scaler.scale(self.total).backward()

  class Trainer:
      def __init__(self):
          self.net = nn.Linear(4, 1).cuda()
          self.optimizer = torch.optim.Adam(self.net.parameters())
+         self.scaler = torch.amp.GradScaler("cuda")

      def calc(self, x, y):
          losses = Losses()
          losses.add(nn.functional.mse_loss(self.net(x.cuda()), y.cuda()))
          return losses, 0.0

      def step(self, x, y):
          self.optimizer.zero_grad()
-         loss, accuracy = self.calc(x, y)
-         loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
+             loss, accuracy = self.calc(x, y)
+         loss.backward(self.scaler)
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
          return accuracy

  trainer = Trainer()
  for x, y in loader:
      trainer.step(x, y)
"""
PLAIN = "\n".join(each[2:] for each in MOVED.splitlines() if not each.startswith("+"))
MAY_BE = "loss may be an object of Losses, whose backward() is no tensor's, and a scaler scales tensors alone"


def test_it_is_scaled_in_its_own_backward(rewrites: Check) -> None:
    rewrites(MOVED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self.total.backward(retain_graph=True)", "scaler.scale(self.total).backward(retain_graph=True)"),
        ("torch.autograd.backward(self.total)", "torch.autograd.backward(scaler.scale(self.total))"),
        ("torch.autograd.backward(self.parts)", "torch.autograd.backward(scaler.scale(self.parts))"),
        ("torch.stack(self.parts).sum().backward()", "scaler.scale(loss).backward()"),
    ],
)
def test_it_is_scaled_there_however_it_goes_backward(migrate: Check, before: str, after: str) -> None:
    moved = migrate(PLAIN.replace("self.total.backward()", before)).after
    assert after in moved
    assert "        loss.backward(self.scaler)\n" in moved


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return losses, 0.0", "return (losses if len(y) else losses.total), 0.0"),
        ("self.total.backward()", "return self.total.backward()"),
        ("self.total.backward()", "with torch.autocast('cuda'):\n            self.total.backward()"),
    ],
)
def test_what_is_not_seen_to_be_scaled_there_is_left(leaves: Check, old: str, new: str) -> None:
    leaves(PLAIN.replace(old, new), MAY_BE)


def test_one_reason_is_enough_for_what_its_backward_takes_backward(migrate: Check) -> None:
    text = PLAIN.replace("return losses, 0.0", "return (losses if len(y) else losses.total), 0.0")
    found = [each.message for each in migrate(text).findings if each.code == "AMP590"]
    assert found == [f"step left as it was: {MAY_BE}"]


def test_a_step_that_does_not_call_it_moves_as_ever(migrate: Check) -> None:
    after = migrate(PLAIN.replace("return losses, 0.0", "return losses.total, 0.0")).after
    assert "self.scaler.scale(loss).backward()" in after
