"""The recorder makes no step wait for a GPU: it asks no tensor for its value while the script trains.

There need be no GPU to see it. What makes the host wait for one goes through the dispatcher or through a method of a
tensor on a CPU as well, and is counted there, in the script, with the recorder and without.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.runs.process import RunResult

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]

TRAIN = """
import json
from collections import Counter
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

OPERATORS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal", "_to_copy")
METHODS = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__")
waits = Counter()

class Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._overloadpacket.__name__ in OPERATORS:
            waits[func._overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

class Methods(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in METHODS:
            waits[func.__name__] += 1
        return func(*args, **(kwargs or {}))

torch.cuda.synchronize = lambda *args: waits.update(["synchronize"])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
x = torch.randn(8, 4)

def step():
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

seen = []
for kind in (torch.optim.SGD, torch.optim.AdamW):
    for steps in (range(9), range(9, 17)):  # first steps have more recorded of them than later ones
        if steps[0] == 0:
            optimizer = kind(model.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        waits.clear()
        with Methods(), Operators():
            for _ in steps:
                step()
        seen.append(dict(waits))
"""
SHOW = "print(json.dumps(seen))\n"


def alone(folder: Path) -> list[dict[str, int]]:
    """What the script waits for by itself."""
    script = folder / "alone.py"
    script.write_text(TRAIN + SHOW, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    waits: list[dict[str, int]] = json.loads(done.stdout)
    return waits


def recorded(result: RunResult) -> list[dict[str, int]]:
    assert result.ended_well, result.log.read_text()
    waits: list[dict[str, int]] = json.loads((result.folder / "stdout.log").read_text())
    return waits


def test_a_recorded_step_waits_no_more_than_the_script_does_by_itself(record: Record, tmp_path: Path) -> None:
    result = record(TRAIN + SHOW, prelude="", census=True)
    own = alone(tmp_path)
    assert own[0]["item"] == own[0]["_local_scalar_dense"] >= 9  # the scaler's own look at its infs, at every step
    together = recorded(result)
    assert len(result.trace.steps) == 34
    # Everything is read once now and then, in one piece; 136 events are two batches, and fewer than three.
    assert sum(one.pop("tolist", 0) for one in together) == 2
    assert together == own


def test_a_timed_step_waits_no_more_than_the_script_does_by_itself(record: Record, tmp_path: Path) -> None:
    assert recorded(record(TRAIN + SHOW, prelude="", timing=True)) == alone(tmp_path)
