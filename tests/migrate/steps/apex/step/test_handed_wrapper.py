"""An `FP16_Optimizer` that is made in one file, and goes backward in another that does not know of Apex."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

_SETUP = """
  import torch
  def create(model, fp16, loss_scale):
      if fp16:
-         from apex.optimizers import FP16_Optimizer, FusedAdam
-         optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False, max_grad_norm=1.0)
-         optimizer = FP16_Optimizer(optimizer, static_loss_scale=loss_scale)
+         from apex.optimizers import FusedAdam
+         optimizer = FusedAdam(model.parameters(), lr=0.1, bias_correction=False)
      else:
          optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
      return optimizer
"""
_RUNNER = """
+ import torch
  class Runner:
-     def __init__(self, model, optimizer, fp16):
+     def __init__(self, model, optimizer, scaler, fp16):
          self.model, self.optimizer, self.fp16 = model, optimizer, fp16
+         self.scaler = scaler
      def step(self, x):
-         loss = self.model(x).mean()
-         if self.fp16:
-             self.optimizer.backward(loss)
-         else:
-             loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=self.scaler.is_enabled()):
+             loss = self.model(x).mean()
+         self.scaler.scale(loss).backward()
+         self.scaler.unscale_(self.optimizer)
+         for group in self.optimizer.param_groups if self.scaler.is_enabled() else ():
+             torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
          self.optimizer.zero_grad()
"""
_TRAIN = """
  import torch
  from runner import Runner
  from setup_model import create
  def main(args, loader):
      model = torch.nn.Linear(2, 2)
      optimizer = create(model, args.fp16, args.scale)
-     runner = Runner(model, optimizer, args.fp16)
+     scaler = torch.amp.GradScaler("cuda", init_scale=float(args.scale), growth_interval=2**31 - 1, enabled=bool(args.fp16))
+     runner = Runner(model, optimizer, scaler, args.fp16)
      for x in loader:
          runner.step(x)
"""  # noqa: E501


# It stays with a step that stays on the Apex which has both.
_PARALLEL = """
def wrap(model):
    from apex.parallel import DistributedDataParallel
    return DistributedDataParallel(model)
"""


def _before(text: str) -> str:
    return "".join(f"{line[2:]}\n" for line in text.splitlines() if not line.startswith("+"))


def test_step_moves_in_the_file_that_is_given_the_wrapper(rewrites_files: Check) -> None:
    rewrites_files({"setup_model.py": _SETUP, "runner.py": _RUNNER, "train.py": _TRAIN})


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        (
            "setup_model.py",
            "static_loss_scale=loss_scale",
            "**loss_scale",
            {"setup_model.py": "is made in a way", "runner.py": "what is in setup_model.py"},
        ),
        (
            "train.py",
            "        runner.step(x)",
            "        runner.step(x)\n        optimizer.clip_master_grads(1.0)",
            {"train.py": "clip_master_grads is asked for in a file", "runner.py": "what is in train.py"},
        ),
    ],
)
def test_wrapper_that_is_not_understood_holds_all_files(
    name: str, old: str, new: str, told: dict[str, str], tmp_path: Path
) -> None:
    texts = {"setup_model.py": _SETUP, "runner.py": _RUNNER, "train.py": _TRAIN}
    before = {each: _before(text) for each, text in texts.items()}
    before[name] = before[name].replace(old, new)
    before["setup_model.py"] += _PARALLEL
    for each, text in before.items():
        (tmp_path / each).write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    assert [each.source.path.name for each in outcome.plans if each.after != each.source.text] == []
    for file, reason in told.items():
        assert any(each.path.endswith(file) and reason in each.message for each in outcome.findings)


def test_scripts_beside_each_other_clip_by_their_own_wrappers(rewrites_files: Check) -> None:
    script = """
      import torch
    - from apex.fp16_utils import FP16_Optimizer
      from notes import note

      model = torch.nn.Linear(2, 2)
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    - optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)
    + scaler = torch.amp.GradScaler("cuda")
      for x in loader:
    -     loss = model(x).mean()
    -     optimizer.backward(loss)
    -     optimizer.clip_master_grads(1.0)
    -     optimizer.step()
    +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
    +         loss = model(x).mean()
    +     scaler.scale(loss).backward()
    +     scaler.unscale_(optimizer)
    +     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    +     scaler.step(optimizer)
    +     scaler.update()
          optimizer.zero_grad()
          note(loss)
    """
    rewrites_files({"one.py": script, "other.py": script, "notes.py": "  def note(x):\n      print(x)\n"})
