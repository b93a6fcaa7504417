"""Checkpoints that Apex scripts share with scripts which know nothing of Apex: these have no scaler, or their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
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


UNNAMED = """
  import torch

- def save(model, optimizer, path):
-     torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
+ def save(model, optimizer, scaler, path):
+     torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": SAVED}, path)

- def load(model, optimizer, path):
+ def load(model, optimizer, scaler, path):
      state = torch.load(path)
      model.load_state_dict(state["model"])
      optimizer.load_state_dict(state["optimizer"])
+     if LOADED:
+         scaler.load_state_dict(state["scaler"])
"""
STATE = {"SAVED": "scaler.state_dict()", "LOADED": 'state.get("scaler")'}
STATE_IF_ANY = {
    "SAVED": "scaler.state_dict() if scaler is not None else None",
    "LOADED": 'scaler is not None and state.get("scaler")',
}
LOAD = """
- load(model, optimizer, "last.pt")
+ load(model, optimizer, scaler, "last.pt")
"""
SAVE_LAST = """
- save(model, optimizer, "last.pt")
+ save(model, optimizer, scaler, "last.pt")
"""


def _unnamed(saved: dict[str, str], loaded: dict[str, str]) -> str:
    return UNNAMED.replace("SAVED", saved["SAVED"]).replace("LOADED", loaded["LOADED"])


def _trains(before: str = LOAD, behind: str = SAVE_LAST) -> str:
    head = """
      import torch
      from torch import nn
    - from apex import amp
      from util import load, save

      MODEL
    ~ INITIALIZE
    """
    return "\n".join((dedent(head).rstrip(), before.strip("\n"), "~ APEX_EPOCH", behind.strip("\n")))


def test_scripts_hand_their_scalers_to_functions_that_know_nothing_of_apex(rewrites_files: Check) -> None:
    scripts = {"one.py": _trains(), "two.py": _trains(), "loads.py": _trains(behind=""), "saves.py": _trains(before="")}
    rewrites_files({**scripts, "util.py": _unnamed(STATE, STATE)})


def test_scripts_of_which_one_loads_what_another_saves(rewrites_files: Check) -> None:
    scripts = {"loads.py": _trains(behind=""), "saves.py": _trains(before="")}
    rewrites_files({**scripts, "util.py": _unnamed(STATE, STATE)})


def test_scripts_that_hand_their_scalers_on_by_a_keyword_and_by_a_function_of_their_own(rewrites_files: Check) -> None:
    by_keyword = """
    - load(model=model, optimizer=optimizer, path="last.pt")
    + load(model=model, optimizer=optimizer, scaler=scaler, path="last.pt")
    """
    by_function = """
    - def resume(optimizer):
    -     load(model, optimizer, "last.pt")
    + def resume(optimizer, scaler):
    +     load(model, optimizer, scaler, "last.pt")
    - resume(optimizer)
    + resume(optimizer, scaler)
    """
    scripts = {"one.py": _trains(dedent(by_keyword)), "two.py": _trains(dedent(by_function)), "three.py": _trains()}
    rewrites_files({**scripts, "util.py": _unnamed(STATE, STATE)})


PLAIN = """
  import torch
  from torch import nn
  from util import load, save

  MODEL
MADE
- load(model, optimizer, "last.pt")
+ load(model, optimizer, SCALER, "last.pt")
TRAINED
- save(model, optimizer, "last.pt")
+ save(model, optimizer, SCALER, "last.pt")
"""


def test_apex_scripts_and_one_in_float32_hand_their_scalers_to_one_function(rewrites_files: Check) -> None:
    made = '+ scaler = torch.amp.GradScaler("cuda")'
    plain = PLAIN.replace("MADE", made).replace("SCALER", "scaler").replace("TRAINED", "~ EPOCH")
    rewrites_files({"one.py": _trains(), "two.py": _trains(), "plain.py": plain, "util.py": _unnamed(STATE, STATE)})


@pytest.mark.parametrize("others", [1, 2])
def test_a_script_that_stays_hands_none_to_functions_that_know_nothing_of_apex(
    rewrites_files: Check, others: int
) -> None:
    trained = """
  for x, y in loader:
      loss = nn.functional.mse_loss(model(x), y)
      loss.backward()  # amp-migrate: ignore
      optimizer.step()
      optimizer.zero_grad()
    """
    plain = PLAIN.replace("MADE\n", "").replace("SCALER", "None").replace("TRAINED", trained.strip("\n"))
    scripts = {f"train_{number}.py": _trains() for number in range(others)}
    rewrites_files({**scripts, "plain.py": plain, "util.py": _unnamed(STATE_IF_ANY, STATE_IF_ANY)})


def test_a_script_on_the_shim_hands_none_to_functions_that_know_nothing_of_apex(rewrites_files: Check) -> None:
    kept = """
      import torch
      from torch import nn
    - from apex import amp
    + from amp_shim import amp
      from util import load, save

      MODEL
      model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    - load(model, optimizer, "last.pt")
    + load(model, optimizer, None, "last.pt")
      for x, y in loader:
          with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
              scaled_loss.backward()
          optimizer.step()
      print(amp._amp_state.loss_scalers[0]._unskipped)
    """
    scripts = {"one.py": _trains(), "two.py": _trains(), "kept.py": kept}
    rewrites_files({**scripts, "util.py": _unnamed(STATE, STATE_IF_ANY)})


@pytest.mark.parametrize("is_beside_float32", [False, True])
def test_a_function_that_nobody_calls_asks_for_no_scaler_in_what_it_calls(
    rewrites_files: Check, is_beside_float32: bool
) -> None:
    train = """
      import torch
      from torch import nn
    - from apex import amp
      from util import load

      MODEL
    ~ INITIALIZE
      load("last.pt", model)
    ~ APEX_EPOCH
    """
    plain = """
      import torch
      from torch import nn
      from util import load

      MODEL
    + scaler = torch.amp.GradScaler("cuda")
    - load("last.pt", model, optimizer)
    + load("last.pt", model, optimizer, scaler)
    ~ EPOCH
    - torch.save({"optimizer": optimizer.state_dict()}, "last.pt")
    + torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "last.pt")
    """
    util = """
      import torch

      def load(path, model, optimizer=None):
          state = torch.load(path)
          model.load_state_dict(state["model"])
          if optimizer:
              optimizer.load_state_dict(state["optimizer"])

      def load_weights(optimizer, model, path):
          load(path, model, optimizer)
    """
    shared = """
      import torch

    - def load(path, model, optimizer=None):
    + def load(path, model, optimizer=None, scaler=None):
          state = torch.load(path)
          model.load_state_dict(state["model"])
          if optimizer:
              optimizer.load_state_dict(state["optimizer"])
    +         if scaler is not None and state.get("scaler"):
    +             scaler.load_state_dict(state["scaler"])

    - def load_weights(optimizer, model, path):
    -     load(path, model, optimizer)
    + def load_weights(optimizer, scaler, model, path):
    +     load(path, model, optimizer, scaler)
    """
    beside = {"plain.py": plain, "util.py": shared} if is_beside_float32 else {"util.py": util}
    rewrites_files({"train.py": train, **beside})


def test_a_state_in_a_file_of_its_own_is_saved_and_loaded_where_there_is_a_scaler(rewrites_files: Check) -> None:
    util = """
    + import os
      import torch

    - def save(model, optimizer, path):
    + def save(model, optimizer, scaler, path):
          torch.save(optimizer.state_dict(), path + "_optimizer")
    +     if scaler is not None and scaler.is_enabled():
    +         torch.save(scaler.state_dict(), path + "_scaler")

    - def load(model, optimizer, path):
    + def load(model, optimizer, scaler, path):
          optimizer.load_state_dict(torch.load(path + "_optimizer"))
    +     if scaler is not None and os.path.exists(path + "_scaler"):
    +         scaler.load_state_dict(torch.load(path + "_scaler"))
    """
    infer = PLAIN.replace("MADE\n", "").replace("SCALER", "None").replace("TRAINED", "  print(model(x))")
    rewrites_files({"train.py": _trains(), "infer.py": infer, "util.py": util})
