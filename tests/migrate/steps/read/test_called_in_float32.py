"""Steps that are called where all casts are switched off stay in float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

FITTED = """
  def fit(x, y):
      judge = nn.Linear(2, 2).cuda()
~     optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
      for _ in range(20):
~         loss = nn.functional.cross_entropy(judge(x), y)
~         loss.backward()
~         optimizer.step()
          optimizer.zero_grad()

  def evaluate(x, y):
      fit(x, y)

"""
BEFORE = "".join(line[2:] for line in FITTED.splitlines(keepends=True))
OFF = 'with torch.amp.autocast("cuda", enabled=False):\n'


@pytest.mark.parametrize("call", ["fit(x, y)", "evaluate(x, y)"])
def test_step_that_is_called_where_casts_are_switched_off(call: str, leaves: Check) -> None:
    text = f"{BEFORE}def check(x, y):\n    {OFF}        with torch.enable_grad():\n            {call}\n"
    leaves(text, "it is called where casts are switched off")


def test_step_that_is_called_beside_what_switches_casts_off(rewrites: Check) -> None:
    rewrites(f"{FITTED}  def check(x, y):\n      {OFF}          x = torch.exp(x)\n      evaluate(x, y)\n")


def test_step_of_a_file_without_apex_that_runs_under_its_disable_casts_rests(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(f"import torch\nfrom torch import nn\n\n{BEFORE}")
    (tmp_path / "check.py").write_text(
        "from apex import amp\nfrom judge import evaluate\n\n"
        "def check(x, y):\n    with amp.disable_casts():\n        evaluate(x, y)\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom apex import amp\nfrom check import check\nfrom torch import nn\n\n"
        "model = nn.Linear(2, 2).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        'model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n'
        "for x, y in loader:\n"
        "    loss = nn.functional.cross_entropy(model(x), y)\n"
        "    with amp.scale_loss(loss, optimizer) as scaled:\n"
        "        scaled.backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    check(x, y)\n"
    )
    outcome = migrate_paths([tmp_path], Settings())
    assert sorted(plan.source.path.name for plan in outcome.changed) == ["check.py", "train.py"]
    for plan in outcome.changed:
        plan.source.path.write_text(plan.after)
    again = migrate_paths([tmp_path], Settings())
    assert not list(again.changed)
    assert any("it is called where casts are switched off" in each.message for each in again.findings)
