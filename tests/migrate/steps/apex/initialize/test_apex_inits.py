"""`amp.init()` for inference, and files that only say what functions compute in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

STEP = """
  import torch
  from torch import nn
  from package.model import suppress
- from apex import amp

  MODEL
- model, optimizer = amp.initialize(model, optimizer)
+ scaler = torch.amp.GradScaler("cuda")
~ APEX_EPOCH
"""


MODEL = """
  from package.layers.nms import nms
  def suppress(x):
      return nms(x)
"""


@pytest.mark.parametrize("call", ["handle = amp.init(enabled=half, verbose=True)", "amp.init(half)"])
def test_handle_that_nobody_uses(call: str, rewrites: Check) -> None:
    rewrites(
        f"""
        ~ APEX
          def main(args):
              model = nn.Linear(2, 2)
              half = args.dtype == "float16"
        -     {call}
              model.eval()
              for x in loader:
                  with torch.no_grad():
        -             y = model(x)
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=half):
        +                 y = model(x)
        """
    )


def test_handle_that_scales_losses_is_apex_amp_by_another_name(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          def main(half):
        -     handle = amp.init(enabled=half, loss_scale=128)
        +     scaler = torch.amp.GradScaler("cuda", init_scale=128.0, growth_interval=2**31 - 1, enabled=bool(half))
              MODEL
              for x, y in loader:
                  optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(model(x), y)
        -         with handle.scale_loss(loss, optimizer) as scaled_loss:
        -             scaled_loss.backward()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(half)):
        +             loss = nn.functional.mse_loss(model(x), y)
        +         scaler.scale(loss).backward()
        ~         optimizer.step()
        """
    )


def test_handle_that_an_object_keeps(rewrites: Check) -> None:
    rewrites(
        """
        ~ APEX
          class Trainer:
              def __init__(self, model):
                  self.model = model
                  self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        -         self.handle = amp.init()
        +         self.scaler = torch.amp.GradScaler("cuda")
              def step(self, x, y):
                  self.optimizer.zero_grad()
        -         loss = nn.functional.mse_loss(self.model(x), y)
        -         with self.handle.scale_loss(loss, self.optimizer) as scaled_loss:
        -             scaled_loss.backward()
        -         self.optimizer.step()
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             loss = nn.functional.mse_loss(self.model(x), y)
        +         self.scaler.scale(loss).backward()
        +         self.scaler.step(self.optimizer)
        +         self.scaler.update()
        """
    )


@pytest.mark.parametrize("other", ["handle = None", "handle = other.init()"])
def test_handle_that_may_be_something_else_stays_on_the_shim(other: str, migrate: Check) -> None:
    step = "with handle.scale_loss(loss, optimizer) as scaled:\n    scaled.backward()\noptimizer.step()\n"
    plan = migrate(f"from apex import amp\nif a:\n    handle = amp.init()\nelse:\n    {other}\n{step}")
    assert "from amp_shim import amp\n" in plan.after
    assert "GradScaler" not in plan.after


@pytest.mark.parametrize("use", ["optimizer = handle.wrap_optimizer(optimizer)", "run(handle)"])
def test_handle_that_is_used_stays_on_the_shim(use: str, migrate: Check) -> None:
    plan = migrate(f"from apex import amp\nhandle = amp.init()\n{use}\n")
    assert "from amp_shim import amp\nhandle = amp.init()\n" in plan.after
    assert any("amp.init has no native form here" in finding.message for finding in plan.findings)


def test_function_of_a_library_goes_with_the_script_that_is_native(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "tools/train.py": STEP,
            "package/model.py": MODEL,
            "package/layers/nms.py": """
              import torch
            - from apex import amp

            - nms = amp.float_function(torch.ops.nms)
            + nms = torch.amp.custom_fwd(torch.ops.nms, device_type="cuda", cast_inputs=torch.float32)
            """,
        }
    )


def test_function_of_a_library_stays_with_the_script_that_is_on_the_shim(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "package/model.py": MODEL,
            "tools/train.py": """
              import torch
              from package.model import suppress
            - from apex import amp
            + from amp_shim import amp

              model, optimizer = amp.initialize(model, optimizer, cast_model_outputs=torch.float16)
            """,
            "package/layers/nms.py": """
              import torch
            - from apex import amp
            + from amp_shim import amp

              nms = amp.float_function(torch.ops.nms)
            """,
        }
    )


_LAYERS = "import torch\nfrom apex import amp\n\nnms = amp.float_function(torch.ops.nms)\n"
_MODEL = "from package.layers.nms import nms\n\n\ndef suppress(x):\n    return nms(x)\n"
_SHIMMED = """
import torch
from apex import amp
IMPORT
def train(model, optimizer, loader):
    model, optimizer = amp.initialize(model, optimizer, cast_model_outputs=torch.float16)
    for x in loader:
        optimizer.zero_grad()
        with amp.scale_loss(model(x).mean(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""
_USES = "from package.model import suppress\n"
_NATIVE = _SHIMMED.replace("IMPORT", _USES).replace("cast_model_outputs=torch.float16", "opt_level='O1'")
_NO_APEX = """
from package.model import suppress

def train(model, optimizer, loader):
    for x in loader:
        optimizer.zero_grad()
        loss = suppress(model(x)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("train", "test", "other", "why"),
    [
        (_NATIVE, _USES, _SHIMMED.replace("IMPORT", ""), None),
        (_NATIVE, _USES, _SHIMMED.replace("IMPORT", _USES), None),
        (_NO_APEX, _USES, _SHIMMED.replace("IMPORT", ""), None),
        (_SHIMMED.replace("IMPORT", _USES), _USES, "", "tools/train.py is, which uses it"),
        ("", _USES, "", "no script that is seen to use amp.float_function here is among the files"),
    ],
)
def test_function_of_a_library_goes_the_way_of_those_that_load_it(
    tmp_path: Path, train: str, test: str, other: str, why: str | None
) -> None:
    files = {"tools/train.py": train, "tools/test.py": test, "tools/other.py": other}
    for name, text in {**files, "package/model.py": _MODEL, "package/layers/nms.py": _LAYERS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    after = {each.source.path.name: each.after for each in outcome.changed}["nms.py"]
    assert ("custom_fwd" in after) == (why is None)
    if why is not None:
        assert any(why in each.message for each in outcome.findings if each.path.endswith("nms.py")), outcome.findings


_EVALUATES = """
import torch
from apex import amp
from other_package import evaluate
IMPORT
def test(model, optimizer):
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    return evaluate(model)
"""


@pytest.mark.parametrize("uses", [_USES, "from package.layers.nms import nms\n"])
def test_function_of_a_library_is_no_helper_of_who_leaves_its_steps_to_others(tmp_path: Path, uses: str) -> None:
    train, test = _NATIVE.replace(_USES, uses), _EVALUATES.replace("IMPORT", uses)
    files = {"train.py": train, "test.py": test, "package/model.py": _MODEL, "package/layers/nms.py": _LAYERS}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    after = {each.source.path.name: each.after for each in migrate_paths([tmp_path], Settings()).changed}
    assert "custom_fwd" in after["nms.py"]
    assert "GradScaler" in after["train.py"]
    assert "amp_shim" in after["test.py"]


BACK = """
- from apex import amp
-
  class Model:
      def __init__(self, config):
          self.config = config
          self.net = nn.Linear(2, 2).cuda()
          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
{initialize}
      def update(self, x, y):
          self.optimizer.zero_grad()
-         loss = nn.functional.mse_loss(self.net(x), y)
-         if self.config["fp16"]:
-             with amp.scale_loss(loss, self.optimizer) as scaled_loss:
-                 scaled_loss.backward()
-         else:
-             loss.backward()
-         self.optimizer.step()
+         with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=bool(self.config["fp16"])):
+             loss = nn.functional.mse_loss(self.net(x), y)
+         self.scaler.scale(loss).backward()
+         self.scaler.step(self.optimizer)
+         self.scaler.update()
"""


def test_nothing_is_left_of_names_that_only_give_back_what_was_prepared(rewrites: Check) -> None:
    initialize = """
-         if self.config["fp16"]:
-             net, optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")
-             self.net = net
-             self.optimizer = optimizer
+         amp_enabled = bool(self.config["fp16"])
+         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
"""
    rewrites(BACK.format(initialize=initialize.strip("\n")))


def test_names_that_are_for_something_else_stay(rewrites: Check) -> None:
    initialize = """
+         amp_enabled = bool(self.config["fp16"])
+         self.scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)
          if self.config["fp16"]:
-             net, optimizer = amp.initialize(self.net, self.optimizer, opt_level="O1")
+             net = self.net
+             optimizer = self.optimizer
              self.net = net
              self.optimizer = optimizer
              print(net)
"""
    rewrites(BACK.format(initialize=initialize.strip("\n")))
