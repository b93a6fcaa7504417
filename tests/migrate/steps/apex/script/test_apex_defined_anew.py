"""A function that is imported, and another of its name that the file defines behind that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

ENGINE = """
      import torch
      from torch import nn
    - from apex import amp

    - def train(model, optimizer, loader):
    + def train(model, optimizer, scaler, loader):
    ~     APEX_EPOCH
"""
USER = """
      import torch
      from torch import nn
      from engine import train
      MODEL
    - from apex import amp
    - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    + scaler = torch.amp.GradScaler("cuda")
    - train(model, optimizer, [])
    + train(model, optimizer, scaler, [])
"""
ANEW = """
      import torch
      from torch import nn
      from engine import train
    - from apex import amp

    - def train(model, optimizer, loader, epochs):
    + def train(model, optimizer, scaler, loader, epochs):
    ~     APEX_EPOCH

      def main():
          MODEL
    ~     INITIALIZE
    -     train(model, optimizer, [], 3)
    +     train(model, optimizer, scaler, [], 3)
"""


def test_what_is_defined_anew_is_what_later_calls_mean(rewrites_files: Check) -> None:
    rewrites_files({"engine.py": ENGINE, "main.py": USER, "demo.py": ANEW})


def test_what_is_imported_is_what_calls_mean_until_then(rewrites_files: Check) -> None:
    text = USER + ANEW.split("amp", 1)[1].replace("\n\n", "\n", 1).replace("      def main", "\n      def main")
    rewrites_files({"engine.py": ENGINE, "demo.py": text})


def test_who_imports_it_from_there_gets_what_is_defined(rewrites_files: Check) -> None:
    user = USER.replace("from engine", "from demo").replace("[])", "[], 3)")
    rewrites_files({"engine.py": ENGINE, "main.py": USER, "demo.py": ANEW, "other.py": user})


def test_call_that_may_mean_either_keeps_both_on_the_shim(tmp_path: Path) -> None:
    step = "    with amp.scale_loss(model(1), optimizer) as s:\n        s.backward()\n    optimizer.step()\n"
    start = (
        "def main(model):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    model, optimizer = amp.initialize(model, optimizer)\n    train(model, optimizer"
    )
    texts = {
        "engine.py": f"from apex import amp\n\ndef train(model, optimizer):\n{step}",
        "main.py": f"import torch\nfrom apex import amp\nfrom engine import train\n\n{start})\n",
        "demo.py": "import torch\nfrom apex import amp\nfrom engine import train\n\n"
        "def first(model, optimizer):\n    train(model, optimizer)\n\n"
        f"def train(model, optimizer, epochs):\n{step}\n{start}, 3)\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    outcome = migrate_paths([tmp_path], Settings())
    assert ["from amp_shim import amp" in each.after for each in outcome.changed] == [True] * 3
    assert any("train() may call train(), as another thing is called so" in each.message for each in outcome.findings)
