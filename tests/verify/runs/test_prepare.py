from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from amp_migrate.settings import Dtype
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.target import Target
from amp_migrate.verify.usage import UsageError

ENGINE = """
def train(model, x, optimizer):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAIN = """
import os
import sys

import torch

import engine

print(sys.path[0], os.path.abspath(__file__), engine.__file__, sys.argv[1:])
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine.train(model, torch.ones(2, 4).cuda(), optimizer)
"""


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_a_migrated_script_finds_its_migrated_siblings(tmp_path: Path, dtype: Dtype) -> None:
    source, there = tmp_path / "user", tmp_path / "scratch"
    source.mkdir()
    (source / "engine.py").write_text("import torch\n" + ENGINE)
    (source / "train.py").write_text(TRAIN)
    migrated, findings = prepare.migrate(Target(source / "train.py"), dtype, there)
    script = migrated.file
    assert findings
    assert migrated.changed == {source / name: there / name for name in ("engine.py", "train.py")}
    assert "autocast" in (there / "engine.py").read_text()
    assert "autocast" not in (source / "engine.py").read_text()
    # Up to the import of torch, which this test does without.
    text = script.read_text().replace("import torch\n", "torch = None\n").partition("model =")[0]
    script.write_text(text)
    (there / "engine.py").write_text((there / "engine.py").read_text().replace("import torch\n", ""))
    command = [sys.executable, str(script), "--lr"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert shown == [str(there), str(there / "train.py"), str(there / "engine.py"), "['--lr']"]


def test_a_launcher_is_looked_for_beside_the_interpreter_first(tmp_path: Path) -> None:
    program = tmp_path / "torchrun"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    words = prepare.launcher("torchrun --nproc-per-node 2", str(tmp_path / "python"))
    assert words == (str(program), "--nproc-per-node", "2")


@pytest.mark.parametrize("words", ["no-such-launcher", "torchrun 'unfinished"])
def test_a_launcher_that_cannot_be_is_a_usage_error(words: str) -> None:
    with pytest.raises(UsageError, match="--launch"):
        prepare.launcher(words, sys.executable)


def test_runs_share_neither_a_folder_nor_a_gpu_unless_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(cores: int, *, gpu: bool) -> list[int]:
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        monkeypatch.setattr(Path, "exists", lambda path: gpu)
        asked = ((None, True, "cpu"), (None, True, "auto"), (None, False, "cpu"), (4, False, "cuda"))
        return [prepare.jobs(*each) for each in asked]

    assert on(8, gpu=False) == [2, 2, 1, 4]
    assert on(8, gpu=True) == [2, 1, 1, 4]
    assert on(1, gpu=False) == [1, 1, 1, 4]


@pytest.mark.parametrize(
    ("dtype", "written"),
    [(None, "torch.bfloat16"), (Dtype.FP16, "torch.cuda.amp.GradScaler()")],
    ids=["project", "said"],
)
def test_a_script_is_migrated_as_its_project_sets_it(dtype: Dtype | None, written: str, tmp_path: Path) -> None:
    source, there = tmp_path / "user", tmp_path / "scratch"
    source.mkdir()
    (source / "train.py").write_text(
        "import torch\n" + ENGINE + "train(model, x, torch.optim.SGD(model.parameters()))\n"
    )
    (source / "requirements.txt").write_text("torch>=2.1\n")
    (source / "pyproject.toml").write_text('[tool.amp-migrate]\ndtype = "bf16"\n')
    migrated, _ = prepare.migrate(Target(source / "train.py"), dtype, there)
    assert written in migrated.file.read_text()


def test_settings_that_cannot_be_used_are_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "pyproject.toml").write_text('[tool.amp-migrate]\ndtype = "fp8"\n')
    with pytest.raises(UsageError, match=r"\[tool.amp-migrate\] dtype: 'fp8' is not one of"):
        prepare.migrate(Target(tmp_path / "train.py"), None, tmp_path / "there")
