"""Checkpoints that Apex scripts share with scripts which know nothing of Apex: these have no scaler, or their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

TRAIN = """
  import torch
  from torch import nn
- from apex import amp
  from util import load, save

  MODEL
- model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
- load(model, optimizer, "O1", "last.pt")
+ scaler = torch.amp.GradScaler("cuda")
+ load(model, optimizer, scaler, "O1", "last.pt")
~ APEX_EPOCH
- save(model, optimizer, "O1", "last.pt")
+ save(model, optimizer, scaler, "O1", "last.pt")
"""
UTIL = """
  import torch
- from apex import amp

- def save(model, optimizer, level, path):
+ def save(model, optimizer, scaler, level, path):
      state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
      if level != "O0":
-         state["amp"] = amp.state_dict()
+         SAVED
      torch.save(state, path)

- def load(model, optimizer, level, path):
+ def load(model, optimizer, scaler, level, path):
      state = torch.load(path)
      model.load_state_dict(state["model"])
      optimizer.load_state_dict(state["optimizer"])
-     if level != "O0" and "amp" in state:
-         amp.load_state_dict(state["amp"])
+     if level != "O0" and "scaler" in state:
+         LOADED
"""
ALWAYS = {
    "SAVED": 'state["scaler"] = scaler.state_dict()',
    "LOADED": 'if state.get("scaler"):\n+             scaler.load_state_dict(state["scaler"])',
}
IF_ANY = {
    "SAVED": 'if scaler is not None:\n+             state["scaler"] = scaler.state_dict()',
    "LOADED": 'if scaler is not None and state.get("scaler"):\n+             scaler.load_state_dict(state["scaler"])',
}
LOADS = """
  import torch
  from torch import nn
  from util import load

  MODEL
- load(model, optimizer, "O0", "last.pt")
+ load(model, optimizer, None, "O0", "last.pt")
  for x in loader:
      print(model(x))
"""


def _util(save: dict[str, str], load: dict[str, str]) -> str:
    return UTIL.replace("SAVED", save["SAVED"]).replace("LOADED", load["LOADED"])


def test_inference_that_makes_an_optimizer_to_load(rewrites_files: Check) -> None:
    rewrites_files({"train.py": TRAIN, "infer.py": LOADS, "util.py": _util(ALWAYS, IF_ANY)})


def test_inference_in_a_function_that_is_given_the_optimizer(rewrites_files: Check) -> None:
    infer = """
      import torch
      from torch import nn
      from util import load

      def restore(model, optimizer):
    -     load(model, optimizer, "O0", "last.pt")
    +     load(model, optimizer, None, "O0", "last.pt")

      def main():
          MODEL
          restore(model, optimizer)

      main()
    """
    rewrites_files({"train.py": TRAIN, "infer.py": infer, "util.py": _util(ALWAYS, IF_ANY)})


def test_float32_script_passes_the_scaler_that_it_is_given_in_the_same_run(rewrites_files: Check) -> None:
    plain = """
      import torch
      from torch import nn
      from util import load, save

      MODEL
    + scaler = torch.amp.GradScaler("cuda")
    - load(model, optimizer, "O1", "plain.pt")
    + load(model, optimizer, scaler, "O1", "plain.pt")
      for x in loader:
    -     loss = model(x).mean()
    -     loss.backward()
    -     optimizer.step()
    +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
    +         loss = model(x).mean()
    +     scaler.scale(loss).backward()
    +     scaler.step(optimizer)
    +     scaler.update()
          optimizer.zero_grad()
    - save(model, optimizer, "O1", "plain.pt")
    + save(model, optimizer, scaler, "O1", "plain.pt")
    """
    findings = rewrites_files({"train.py": TRAIN, "plain.py": plain, "util.py": _util(ALWAYS, ALWAYS)})
    assert not [each for each in findings if each.code == "AMP611"]


def test_float32_script_that_stays_has_none_to_pass(rewrites_files: Check) -> None:
    plain = """
      import torch
      from torch import nn
      from util import load, save

      MODEL
    - load(model, optimizer, "O1", "plain.pt")
    + load(model, optimizer, None, "O1", "plain.pt")
      for x in loader:
          model(x).mean().backward()  # amp-migrate: ignore
          optimizer.step()
          optimizer.zero_grad()
    - save(model, optimizer, "O1", "plain.pt")
    + save(model, optimizer, None, "O1", "plain.pt")
    """
    rewrites_files({"train.py": TRAIN, "plain.py": plain, "util.py": _util(IF_ANY, IF_ANY)})


@pytest.mark.parametrize(
    ("saved", "after"),
    [
        ('"amp": amp.state_dict()', '"scaler": self.scaler.state_dict() if self.scaler is not None else None'),
        (
            '"amp": amp.state_dict() if self.level else None',
            '"scaler": (self.scaler.state_dict() if self.scaler is not None else None) if self.level else None',
        ),
    ],
)
def test_object_that_keeps_the_optimizer_may_keep_no_scaler(rewrites_files: Check, saved: str, after: str) -> None:
    train = """
      import torch
      from torch import nn
    - from apex import amp
      from util import Checkpoint

      MODEL
    - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    - checkpoint = Checkpoint(model, optimizer)
    + scaler = torch.amp.GradScaler("cuda")
    + checkpoint = Checkpoint(model, optimizer, scaler)
    ~ APEX_EPOCH
      checkpoint.save("last.pt")
    """
    infer = """
      import torch
      from torch import nn
      from util import Checkpoint

      MODEL
    - Checkpoint(model, optimizer).load("last.pt")
    + Checkpoint(model, optimizer, None).load("last.pt")
    """
    util = f"""
      import torch
    - from apex import amp

      class Checkpoint:
    -     def __init__(self, model, optimizer, level="O1"):
    +     def __init__(self, model, optimizer, scaler, level="O1"):
              self.model, self.optimizer, self.level = model, optimizer, level
    +         self.scaler = scaler
          def save(self, path):
    -         torch.save({{"optimizer": self.optimizer.state_dict(), {saved}}}, path)
    +         torch.save({{"optimizer": self.optimizer.state_dict(), {after}}}, path)
          def load(self, path):
              state = torch.load(path)
              self.optimizer.load_state_dict(state["optimizer"])
    -         if "amp" in state:
    -             amp.load_state_dict(state["amp"])
    +         if self.scaler is not None and state.get("scaler"):
    +             self.scaler.load_state_dict(state["scaler"])
    """
    rewrites_files({"train.py": train, "infer.py": infer, "util.py": util})


OF_APEX = """
import torch
from torch import nn
from apex import amp
from util import save

model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x in loader:
    with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
save(model, optimizer, "last.pt")
"""
SAVE = """
import torch
from apex import amp

def save(model, optimizer, path):
    STATE
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": state}, path)
"""
OTHER = """
import torch
IMPORT
from util import save

other = torch.optim.SGD(MODEL.parameters(), lr=0.1)
save(MODEL, other, "other.pt")
"""


@pytest.mark.parametrize(
    ("state", "imported", "model", "why"),
    [
        # The state is that of the optimizer which the same program trains.
        ("state = amp.state_dict()", "import train", "train.model", "no way for the scaler to where Apex's state is"),
        (
            'state = amp.state_dict()["loss_scaler0"]["loss_scale"]',
            "from model import net",
            "net",
            "the loss scale is asked for where some callers have none",
        ),
    ],
)
def test_state_that_others_need_keeps_the_script_on_the_shim(
    tmp_path: Path, state: str, imported: str, model: str, why: str
) -> None:
    (tmp_path / "train.py").write_text(OF_APEX)
    (tmp_path / "util.py").write_text(SAVE.replace("STATE", state))
    (tmp_path / "other.py").write_text(OTHER.replace("IMPORT", imported).replace("MODEL", model))
    told = [each.message for each in migrate_paths([tmp_path], Settings()).findings if each.code == "AMP290"]
    assert any(why in each for each in told), told


LEFT_OUT = """
import torch
from apex import amp

def load(model, optimizer=None, path="last.pt"):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    ASKED
    amp.load_state_dict(state["amp"])

def main(model, loader, evaluate):
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    if evaluate:
        load(model, None)
    else:
        load(model, optimizer)
    for x, y in loader:
        optimizer.zero_grad()
        with amp.scale_loss((model(x.cuda()) - y.cuda()).square().mean(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, "last.pt")

main(torch.nn.Linear(2, 2), loader, True)
"""
RESTORED = 'if optimizer is not None:\n        optimizer.load_state_dict(state["optimizer"])'
ALONE = 'amp.load_state_dict(state["amp"])'


@pytest.mark.parametrize("is_asked", [False, True])
def test_what_is_given_no_optimizer_restores_no_scaler(tmp_path: Path, is_asked: bool) -> None:
    text = LEFT_OUT.replace("ASKED", RESTORED)
    if is_asked:
        text = text.replace(f"    {ALONE}", f"    if optimizer is not None:\n        {ALONE}", 1)
    (tmp_path / "train.py").write_text(text)
    (found,) = migrate_paths([tmp_path], Settings()).changed
    assert "load(model, None)" in found.after or "load(model, None, None)" in found.after
    wanted = 'if state.get("scaler"):' if is_asked else 'if scaler is not None and state.get("scaler"):'
    assert f"{wanted}\n" in found.after
