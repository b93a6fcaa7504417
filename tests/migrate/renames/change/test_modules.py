"""The deprecated module and its submodules under any name: moved where everything taken from them moves, else told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_module_under_a_variable_in_a_function(rewrites: Check) -> None:
    rewrites(
        """
          def train(flag):
        -     amp = torch.cuda.amp
        -     scaler: "amp.GradScaler" = amp.GradScaler(1024.0, enabled=flag)
        -     with amp.autocast(flag):
        +     amp = torch.amp
        +     scaler: "amp.GradScaler" = amp.GradScaler("cuda", init_scale=1024.0, enabled=flag)
        +     with amp.autocast(device_type="cuda", dtype=torch.float16, enabled=flag):
                  pass
        """
    )


def test_variable_that_holds_another(rewrites: Check) -> None:
    rewrites(
        """
        - native = torch.cuda.amp
        - cast, other = native, 1
        - with cast.autocast():
        + native = torch.amp
        + cast, other = torch.amp, 1
        + with cast.autocast(device_type="cuda", dtype=torch.float16):
              pass
        """
    )


def test_variable_of_which_one_use_stays(rewrites: Check) -> None:
    rewrites(
        """
          amp = torch.cuda.amp
          run(amp.autocast)
        - scaler = amp.GradScaler()
        + scaler = torch.amp.GradScaler("cuda")
        """
    )


def test_variable_that_nothing_uses(rewrites: Check) -> None:
    rewrites(
        """
          with torch.no_grad():
        -     amp = torch.cuda.amp
        -     with torch.cuda.amp.autocast():
        +     amp = torch.amp
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  pass
        """
    )


def test_module_that_is_asked_for(rewrites: Check) -> None:
    rewrites(
        """
        - try:
        -     from torch.cuda import amp
        - except ImportError:
        -     amp = None
        + from torch import amp

          if amp is not None and use_amp:
        -     scaler = amp.GradScaler()
        +     scaler = amp.GradScaler("cuda")
        """
    )


@pytest.mark.parametrize("module", ["autocast_mode", "grad_scaler"])
@pytest.mark.parametrize("statement", ["from torch.{}.amp import {} as module", "import torch.{}.amp.{} as module"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_submodule(migrate: Check, module: str, statement: str, device: str) -> None:
    name = "autocast" if module == "autocast_mode" else "GradScaler"
    plan = migrate(f"{statement.format(device, module)}\nx = module.{name}()\n")
    assert "cuda.amp" not in plan.after
    assert "cpu.amp" not in plan.after
    assert f"x = module.{name}(" in plan.after


def test_private_function_of_a_submodule_takes_its_neighbours_along(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp.autocast_mode import _cast, autocast
        + from torch.amp.autocast_mode import _cast, autocast

        - with autocast():
        -     x = _cast(x, torch.float32)
        + with autocast(device_type="cuda", dtype=torch.float16):
        +     x = _cast(x, "cuda", torch.float32)
        """
    )


def test_dotted_import_of_a_submodule(rewrites: Check) -> None:
    rewrites(
        """
        - import torch.cuda.amp.autocast_mode
        + import torch.amp.autocast_mode

        - x = torch.cuda.amp.autocast_mode.autocast()
        + x = torch.amp.autocast(device_type="cuda", dtype=torch.float16)
        """,
        head="",
    )


def test_import_that_nothing_uses(rewrites: Check) -> None:
    rewrites(
        """
        - from torch.cuda.amp import autocast, GradScaler
        - from torch.cuda import amp
        + from torch.amp import autocast, GradScaler
        + from torch import amp
        """
    )


def test_import_that_nothing_uses_and_nobody_wants_to_move(ignores: Check) -> None:
    ignores("from torch.cuda.amp import autocast  # amp-migrate: ignore[AMP101]\n")


@pytest.mark.parametrize(
    "use",
    [
        "getattr(torch.cuda.amp, name)",
        "run(torch.cuda.amp)",
        "modules = [torch.cuda.amp]",
        "amp = torch.cuda.amp if native else None",
        "class Trainer:\n    amp = torch.cuda.amp",
        "class Trainer:\n    def __init__(self):\n        self.amp = torch.cuda.amp",
        "amp = torch.cuda.amp\nrun(amp)",
        "amp = torch.cuda.amp\nother = amp\nrun(other)",
    ],
)
def test_module_of_which_nobody_sees_what_is_taken(leaves: Check, use: str) -> None:
    finding = leaves(f"{use}\n", "what is taken from the module cannot be seen")
    assert finding.code == "AMP190"


def test_attribute_of_self(rewrites: Check) -> None:
    rewrites(
        """
          class Trainer:
              def __init__(self):
        -         self.amp = torch.cuda.amp
        +         self.amp = torch.amp

              def step(self, args):
        -         with self.amp.autocast(args.amp):
        +         with self.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
        -             return self.amp.GradScaler(2.0)
        +             return self.amp.GradScaler("cuda", init_scale=2.0)
        """
    )


@pytest.mark.parametrize(
    "use",
    ["class Other(Trainer):\n    def step(self):\n        self.amp.autocast(False)", "Trainer().amp.autocast(False)"],
)
def test_attribute_that_others_read_stays(migrate: Check, use: str) -> None:
    own = "class Trainer:\n    def __init__(self):\n        self.amp = torch.cuda.amp\n\n    def step(self):\n"
    plan = migrate(f"{own}        with self.amp.autocast():\n            pass\n\n{use}\n")
    assert "        self.amp = torch.cuda.amp\n" in plan.after
    assert 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):' in plan.after
    assert plan.after.endswith(f"{use}\n")
    assert [finding.line for finding in plan.findings if finding.code == "AMP190"] == [6]


@pytest.mark.parametrize("value", ["torch.cuda.amp if native else None", "None\n        self.amp = torch.cuda.amp"])
def test_attribute_that_may_be_something_else(leaves: Check, value: str) -> None:
    leaves(
        f"class Trainer:\n    def __init__(self):\n        self.amp = {value}\n\n"
        "    def step(self):\n        with self.amp.autocast():\n            pass\n",
        "what is taken from the module cannot be seen",
    )


def test_variable_that_other_files_import(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "compat.py": "import torch\n\namp = torch.cuda.amp\n",
            "train.py": "from compat import amp\n\nwith amp.autocast():\n    run(amp)\n",
        }
    )
    assert "other files import amp from here" in findings[0].message
