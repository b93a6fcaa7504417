"""`amp-verify doctor`: what it measures in scripts, and what it says."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from amp_migrate.verify.cli import main
from amp_migrate.verify.recorded.recording import Anatomy, Product
from amp_migrate.verify.runs.process import RunResult
from click.testing import CliRunner, Result

pytestmark = pytest.mark.slow

Record = Callable[..., RunResult]

PRELUDE = """
import time
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 3, 4, 4).cuda(), torch.zeros(4, dtype=torch.long).cuda()

def train(steps, enabled=True):
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=enabled):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""
CONVOLUTION = Product("conv2d", "float16", (3, 8), 3 * 2 * 4 * 8 * 16 * 27)
LINEAR = Product("linear", "float16", (4, 128, 5), 3 * 2 * 4 * 128 * 5)


def looked_at(result: RunResult) -> Anatomy:
    assert result.ended_well, result.log.read_text()
    assert result.trace.anatomy is not None
    return result.trace.anatomy


def test_products_are_counted_by_dtype_and_sizes_over_three_steps(record: Record) -> None:
    seen = looked_at(record("train(6)", prelude=PRELUDE, timing=True, anatomy=True))
    assert seen.steps == 3
    assert seen.products == (CONVOLUTION, LINEAR)
    # Weights and biases of two layers, and the picture; each step casts them anew.
    assert (seen.weight_casts, seen.other_casts) == (3 * 4, 3 * 1)
    weights = sum(numel for numel in (8 * 3 * 9, 8, 5 * 128, 5))
    assert seen.cast_bytes == 3 * 4 * (weights + 4 * 3 * 16)


def test_full_precision_casts_nothing_and_evaluation_is_not_counted(record: Record) -> None:
    text = """
    with torch.no_grad():
        model(x)
    train(3, enabled=False)
    """
    seen = looked_at(record(text, prelude=PRELUDE, timing=True, anatomy=True))
    assert {product.dtype for product in seen.products} == {"float32"}
    assert seen.products[0].flops == CONVOLUTION.flops
    assert (seen.weight_casts, seen.other_casts, seen.cast_bytes) == (0, 0, 0)


def test_casts_by_hand_and_reads_are_counted(record: Record) -> None:
    text = """
    x.requires_grad_().mul(1).half()
    x.mean().item(), bool(x.mean() > 0), x.detach().cpu().numpy()
    train(1, enabled=False)
    """
    seen = looked_at(record(text, prelude=PRELUDE, timing=True, anatomy=True))
    assert seen.other_casts == 1
    assert seen.reads == {"item": 1, "__bool__": 1, "cpu": 1, "numpy": 1}


def test_the_time_of_a_step_is_split_by_phase(record: Record) -> None:
    text = """
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 6
        def __getitem__(self, index):
            time.sleep(0.03)
            return x[0], y[0]

    class SlowSGD(torch.optim.SGD):
        def step(self, closure=None):
            time.sleep(0.02)
            super().step()

    optimizer = SlowSGD(model.parameters(), lr=0.1)
    for _ in torch.utils.data.DataLoader(Slow()):
        train(1, enabled=False)
        time.sleep(0.01)
    """
    result = record(text, prelude=PRELUDE, timing=True, phases=True)
    assert result.ended_well, result.log.read_text()
    assert len(result.trace.phases) == 6
    assert len(result.trace.milliseconds) == 5  # a step that calls another is one
    for step in result.trace.phases[1:]:
        assert step["data"] >= 30
        assert step["optimizer"] >= 20
        assert step["step"] >= 60
        assert step["data"] + step["optimizer"] + step["backward"] + 10 <= step["step"]


SLOW = """
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return {count}
        def __getitem__(self, index):
            time.sleep(0.2)
            return index, y[0]
    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(Slow(), {options})
        for epoch in range(2):
            for index, _ in loader:
                print(epoch, *index.tolist())
                train(1, enabled=False)
"""


@pytest.mark.parametrize("options", ["shuffle=False", "num_workers=1, persistent_workers=True", "num_workers=1"])
def test_one_batch_is_given_as_often_as_there_are_batches(options: str, record: Record) -> None:
    result = record(SLOW.format(options=options, count=4), prelude=PRELUDE, timing=True, variants=("one batch",))
    assert result.ended_well, result.log.read_text()
    lines = (result.folder / "stdout.log").read_text().splitlines()
    assert lines == [f"{epoch} 0" for epoch in range(2) for _ in range(4)]
    kept = [ms for number, ms in enumerate(result.trace.milliseconds, 1) if number % 4]  # not those between epochs
    assert len(kept) == 6
    assert min(kept) < 200


def doctor(folder: Path, steps: int, *options: str) -> Result:
    script = folder / "train.py"
    script.write_text(f"{PRELUDE}\ntrain({steps})\n")
    return CliRunner().invoke(main, ["doctor", str(script), "--device", "cpu", "--isolate", "never", *options])


def test_a_script_is_measured_without_a_gpu_as_far_as_that_goes(tmp_path: Path) -> None:
    result = doctor(tmp_path, 12, "--steps", "10", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "mixed precision off for all times" in lines[0]
    assert lines[1].startswith("a step of ")
    assert any(line.startswith("limits   shapes: 100% of those operations") for line in lines)
    assert "unknown  TF32: whether float32 runs on matrix units cannot be told without a GPU" in lines
    document = json.loads((tmp_path / "out.json").read_text())
    assert {one["cause"] for one in document["diagnoses"]} >= {"ceiling", "input", "casts", "reads", "host"}
    assert 0 < document["profile"]["products_us"] < document["profile"]["total_us"]
    assert document["anatomy"]["products"][0]["sizes"] == [3, 8]


def test_a_script_that_waits_for_data_is_timed_without(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PRELUDE + textwrap.dedent(SLOW.format(options="shuffle=False", count=12)))
    out = tmp_path / "out.json"
    options = ["--device", "cpu", "--isolate", "never", "--steps", "12", "--json", str(out)]
    result = CliRunner().invoke(main, ["doctor", str(script), *options])
    assert result.exit_code == 0, result.output
    assert any(line.startswith("limits   input: ") and line.endswith("kept") for line in result.stdout.splitlines())
    document = json.loads(out.read_text())
    assert document["step_ms"] >= 200  # what each sample sleeps
    assert document["one_batch_ms"] < document["step_ms"]  # however slow the machine is otherwise
    assert document["kernels_us"] is None


def test_a_script_that_is_too_short_says_nothing(tmp_path: Path) -> None:
    result = doctor(tmp_path, 3)
    assert result.exit_code == 4
    assert "VACUOUS: at least 5 optimizer steps are needed" in result.stdout
