"""`amp-verify trace`: operations by dtype, and where the time goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.commands.trace import tables
from amp_migrate.verify.recorded.recording import Profile, Trace
from click.testing import CliRunner

SCRIPT = """
import torch
from torch import nn
model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    with torch.autocast("cuda"):
        loss = nn.functional.cross_entropy(model(torch.ones(2, 4).cuda()), torch.tensor([0, 1]).cuda())
    loss.backward()
    optimizer.step()
"""


def test_tables_have_a_column_per_dtype_and_shares_of_the_time(make_trace: Callable[..., Trace]) -> None:
    trace = make_trace(
        census=(("linear", "float16", 12), ("linear", "float32", 3), ("softmax", "float32", 6)),
        profile=Profile("x", 4000.0, (("aten::addmm", 7, 3000.0), ("aten::add", 2, 1000.0))),
    )
    lines = list(tables(trace))
    assert lines[1].split() == ["float16", "float32"]
    assert lines[2].split() == ["linear", "12", "3"]
    assert lines[3] == "  softmax                 6"
    assert lines[-2].split() == ["aten::addmm", "7", "3.00", "ms", "75%"]
    assert "operations by their own processor time, over the steps after them" in lines
    untimed = tables(replace(trace, profile=Profile("x", 0.0, (("aten::add", 2, 0.0),))))
    assert list(untimed)[-1].split() == ["aten::add", "2", "0.00", "ms", "0%"]
    on_gpu = tables(replace(trace, environment={**trace.environment, "stand_in": False}))
    assert "operations by their own GPU time, over the steps after them" in list(on_gpu)


def traced(folder: Path, steps: int, *options: str) -> tuple[int, str]:
    script = folder / "train.py"
    script.write_text(SCRIPT.replace("STEPS", str(steps)))
    output = folder / "trace.json"
    arguments = ["trace", str(script), "--device", "cpu", "--isolate", "never", "--output", str(output), *options]
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout


@pytest.mark.slow
def test_a_script_is_traced_as_it_is(tmp_path: Path) -> None:
    status, said = traced(tmp_path, 20, "--steps", "2")
    assert status == 0, said
    assert "linear" in said
    assert "float16" in said
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["name"] for event in events if "name" in event]
    assert names.count("aten::cross_entropy_loss") == 2
    assert "aten::linalg_vector_norm" not in names  # the recorder's own


@pytest.mark.slow
def test_too_few_steps_are_told(tmp_path: Path) -> None:
    status, said = traced(tmp_path, 2)
    assert status == 4
    assert "2 optimizer steps; at least 4 are needed" in said


@pytest.mark.slow
def test_a_script_that_fails_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise ValueError('no data')\n")
    result = CliRunner().invoke(main, ["trace", str(script), "--device", "cpu", "--isolate", "never"])
    assert result.exit_code == 5
    assert "no data" in result.stdout
