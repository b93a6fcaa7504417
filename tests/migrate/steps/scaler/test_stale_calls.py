"""A call that raises TypeError as it is: it says nothing about what the others are handed, and is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]

_ENGINE = """
  import torch

- def train(conf, model, loader, optimizer):
+ def train(conf, model, loader, optimizer, scaler):
      for x, y in loader:
~         loss = torch.nn.functional.mse_loss(model(x), y)
~         STEP
"""
_MAIN = """
  import torch
  from engine import train

  model = torch.nn.Linear(2, 2)
~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
- train({}, model, loader, optimizer)
+ train({}, model, loader, optimizer, scaler)
"""
_SAVING = """
  import torch
  from util import save

  model, head = torch.nn.Linear(8, 8), None
~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  for x, y in loader:
~     loss = torch.nn.functional.mse_loss(model(x), y)
~     STEP
"""
_CALL = "  from engine import train\n\n  train("


@pytest.mark.parametrize("given", ["model, loader, optimizer", "*given, speed=2", "{}, model, 1, 2, 3, 4"])
def test_call_by_old_parameters_does_not_decide_for_the_others(given: str, rewrites_files: Check) -> None:
    findings = rewrites_files({"engine.py": _ENGINE, "main.py": _MAIN, "demo.py": f"{_CALL}{given})\n"})
    told = [(each.code, each.line, each.message) for each in findings if each.path.endswith("demo.py")]
    why = "raises TypeError, as it did: it does not fit the parameters of train()"
    assert told == [("AMP501", 3, f"`train({given})` {why}")]


def test_apex_script_is_native_beside_a_call_by_old_parameters(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "engine.py": """
              import torch
            - from apex import amp

            - def train(conf, model, optimizer, loader):
            + def train(conf, model, optimizer, scaler, loader):
            ~     APEX_EPOCH
            """,
            "main.py": """
              import torch
              from torch import nn
            - from apex import amp
              from engine import train

              MODEL
            - model, optimizer = amp.initialize(model, optimizer)
            - train({}, model, optimizer, loader)
            + scaler = torch.amp.GradScaler("cuda")
            + train({}, model, optimizer, scaler, loader)
            """,
            "demo.py": f"{_CALL}model, optimizer, loader)\n",
        }
    )
    assert [each.code for each in findings if each.path.endswith("demo.py")] == ["AMP201"]


def test_checkpoint_that_raises_in_one_script_keeps_no_other_from_its_scaler(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "util.py": """
              import torch

            - def save(model, head, optimizer, epoch, path):
            -     torch.save({"optimizer": optimizer.state_dict(), "epoch": epoch}, path)
            + def save(model, head, optimizer, scaler, epoch, path):
            +     torch.save({"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict(), "epoch": epoch}, path)
            """,
            "good.py": f"""{_SAVING}
- save(model, head, optimizer, 1, "model.pth")
+ save(model, head, optimizer, scaler, 1, "model.pth")
""",
            "bad.py": f'{_SAVING}\n  save(model, optimizer, 1, "model.pth")\n',
        }
    )
    told = [each.message for each in findings if each.path.endswith("bad.py") and "TypeError" in each.message]
    call = '`save(model, optimizer, 1, "model.pth")`'
    assert told == [f"{call} raises TypeError, as it did: it does not fit the parameters of save()"]


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        (_ENGINE, "{}, model, loader, optimizer, 2"),  # which the scaler would make fit: it may be tried first
        (_ENGINE.replace("\n- def", "\n  @task\n- def", 1), "model, loader, optimizer"),
    ],
)
def test_nothing_moves_where_a_call_may_fit(engine: str, given: str, rewrites_files: Check) -> None:
    after = {
        "engine.py": _before(engine),
        "main.py": _before(_MAIN),
        "demo.py": f"{_CALL}{given})\n",
    }
    findings = rewrites_files(after)
    assert f"`train({given})` does not fit the parameters of train(), as it is" in findings[0].message


def _before(diff: str) -> str:
    plain = diff.replace("STEP", "optimizer.zero_grad()\n          loss.backward()\n          optimizer.step()")
    lines = (line for line in plain.splitlines() if not line.startswith("+"))
    return "\n".join(f" {line[1:]}" if line[:1] in "-~" and line else line for line in lines)
