"""Classes that only the branches of Apex use: `loss_scaler = ApexScaler()` beside a `NativeScaler()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

TRAIN = """
  from contextlib import nullcontext
  from functools import partial
  import torch
  from torch import nn
  from scalers import ApexScaler, NativeScaler
{imports}
  def main(args, loader):
      model = nn.Linear(2, 2)
      optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
      loss_scaler, region = None, nullcontext
{branches}
          region = partial(torch.amp.autocast, device_type="cuda", dtype=torch.float16)
          loss_scaler = NativeScaler()
      for x, y in loader:
          with region():
              loss = nn.functional.mse_loss(model(x), y)
          optimizer.zero_grad()
          if loss_scaler is not None:
              loss_scaler(loss, optimizer)
          else:
              loss.backward()
              optimizer.step()
"""
IMPORTS = """\
- try:
-     from apex import amp
-     has_apex = True
- except ImportError:
-     has_apex = False
"""
BRANCHES = """\
-     if args.amp == "apex":
-         model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
-         loss_scaler = ApexScaler()
-     elif args.amp == "native":
+     if args.amp in ("native", "apex"):
"""
SCALERS = """
  import torch
  try:
-     from apex import amp
+     from amp_shim import amp
      has_apex = True
  except ImportError:
      amp = None
      has_apex = False

  class ApexScaler:
      def __call__(self, loss, optimizer):
          with amp.scale_loss(loss, optimizer) as scaled_loss:
              scaled_loss.backward()
          optimizer.step()

      def state_dict(self):
          if "state_dict" in amp.__dict__:
              return amp.state_dict()

  class NativeScaler:
      def __init__(self):
          self._scaler = torch.amp.GradScaler("cuda")

      def __call__(self, loss, optimizer):
          self._scaler.scale(loss).backward()
          self._scaler.step(optimizer)
          self._scaler.update()
"""


def test_a_class_that_nothing_uses_any_more_keeps_no_script_from_native_amp(rewrites_files: Check) -> None:
    train = TRAIN.format(imports=IMPORTS.rstrip(), branches=BRANCHES.rstrip())
    findings = rewrites_files({"train.py": train, "scalers.py": SCALERS})
    told = {(each.path.rpartition("/")[2], each.message) for each in findings if each.code == "AMP290"}
    assert told == {("scalers.py", "kept on amp_shim instead of native AMP: nothing here uses ApexScaler any more")}


@pytest.mark.parametrize(
    "other",
    [
        "  from scalers import ApexScaler\n  scaler = ApexScaler()\n",
        '  import scalers\n  scaler = getattr(scalers, "ApexScaler")()\n',
    ],
)
def test_a_class_that_another_file_uses_keeps_the_script_on_the_shim(rewrites_files: Check, other: str) -> None:
    on_shim = "- from apex import amp\n+ from amp_shim import amp\n"
    stays = "".join(f"  {line[2:]}\n" for line in BRANCHES.splitlines() if not line.startswith("+"))
    train = TRAIN.format(imports=on_shim.rstrip(), branches=stays.rstrip())
    findings = rewrites_files({"train.py": train, "scalers.py": SCALERS, "other.py": other})
    reasons = {each.message.partition(": ")[2] for each in findings if each.code == "AMP290"}
    assert "apex.amp is used where native AMP is not chosen instead" in reasons
