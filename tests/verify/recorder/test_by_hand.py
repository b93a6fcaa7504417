"""Scripts that change their weights themselves: every backward pass begins a step, and no optimizer is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.runs.process import RunResult
from click.testing import CliRunner

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]
PRELUDE = """
import torch
from torch import nn
torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
criterion = nn.CrossEntropyLoss()
x, y = torch.randn(32, 8).to(device), torch.randint(3, (32,)).to(device)
"""
TRAIN = """
for step in range(30):
    model.zero_grad()
    output = model(x)
    loss = criterion(output, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
"""
OTHERS = """
criterion(model(x), y).backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    criterion(model(x), y).backward()
    optimizer.step()
"""


def test_a_step_is_what_lies_between_two_backward_passes(record: Record) -> None:
    result = record(TRAIN, prelude=PRELUDE, steps=0, program=True)
    steps = result.trace.steps
    assert len(steps) == len(result.trace.backwards) == 30
    assert [backward.attempt for backward in result.trace.backwards] == list(range(30))
    assert steps[0].grads == "1111"
    assert [step.grad_norm for step in steps] == [None] * 30
    assert all(step.update_norm == pytest.approx(0.001, rel=0.01) for step in steps[:6])  # 0.1 of what is clipped to
    assert steps[6].update_norm is None
    assert {state.point for state in result.trace.states} >= {"1", "20", "end"}


def test_such_a_run_ends_after_the_steps_that_were_asked_for(record: Record) -> None:
    result = record(TRAIN, prelude=PRELUDE, steps=7)
    assert result.trace.stopped
    assert (len(result.trace.steps), len(result.trace.backwards)) == (7, 7)


def test_an_optimizer_that_is_made_later_makes_the_steps(record: Record) -> None:
    trace = record(OTHERS, prelude=PRELUDE, steps=0).trace
    assert [step.optimizer for step in trace.steps] == [0, 1, 1, 1]
    assert [step.grad_norm is None for step in trace.steps] == [True, False, False, False]
    usual = record(OTHERS.replace("criterion(model(x), y).backward()\noptimizer", "optimizer"), prelude=PRELUDE)
    assert [step.optimizer for step in usual.trace.steps] == [0, 0, 0]


@pytest.mark.parametrize(("changed", "status"), [("", 0), ("alpha=-0.05", 1)])
def test_such_a_script_is_verified(tmp_path: Path, changed: str, status: int) -> None:
    script, migrated = tmp_path / "train.py", tmp_path / "train_amp.py"
    script.write_text(PRELUDE + TRAIN)
    region = "    with torch.autocast('cuda', dtype=torch.bfloat16):\n        output = model(x)\n        loss"
    text = TRAIN.replace("    output = model(x)\n    loss", region)
    migrated.write_text(PRELUDE + text.replace("alpha=-0.1", changed or "alpha=-0.1"))
    arguments = ["run", str(script), str(migrated), "--device", "cpu", "--steps", "20", "--isolate", "never"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == status, result.output
