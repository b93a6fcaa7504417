"""`amp-migrate --compare OLD NEW`: for those who migrate by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.cli import command
from click.testing import CliRunner, Result

OLD = "import torch\nloss = model(x).sum()\nloss.backward()\noptimizer.step()\n"
NEW = """import torch
scaler = torch.amp.GradScaler("cuda")
with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
    loss = model(x).sum()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(command, ["--compare", *words])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.py").write_text(OLD)
    Path("new.py").write_text(NEW)


def test_two_files_that_are_the_same_but_for_precision() -> None:
    result = run("old.py", "new.py")
    assert result.exit_code == 0
    assert result.stdout == (
        "new.py: the same program but for precision (checked: erasure, names, calls, scaler order)\n"
        "1 compared, 0 not changed at all, 0 not the same program.\n"
    )


def test_two_files_that_are_not() -> None:
    Path("new.py").write_text(NEW.replace("model(x).sum()", "model(x).mean()"))
    result = run("old.py", "new.py")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == (
        "old.py:2 -> new.py:4: the result is another program: `model(x).mean` stands where the original has "
        "`model(x).sum`"
    )


def test_folders_are_compared_file_by_file() -> None:
    for folder, text in (("a", OLD), ("b", NEW)):
        Path(folder, "pkg").mkdir(parents=True)
        Path(folder, "train.py").write_text(text)
        Path(folder, "pkg", "same.py").write_text("x = 1\n")
    result = run("a", "b")
    assert result.exit_code == 0
    assert result.stdout.endswith("1 compared, 1 not changed at all, 0 not the same program.\n")
    Path("b", "more.py").write_text("x = 1\n")
    result = run("a", "b")
    assert result.exit_code == 1
    assert "b/more.py: there is no such file in a\n" in result.stdout


def test_notebooks_are_compared_by_their_code() -> None:
    for name, text in (("a.ipynb", OLD), ("b.ipynb", NEW)):
        cell: dict[str, Any] = {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": text,
        }
        Path(name).write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert run("a.ipynb", "b.ipynb").exit_code == 0


def test_a_file_that_does_not_parse_is_told() -> None:
    Path("new.py").write_text("with (:\n")
    result = run("old.py", "new.py")
    assert result.exit_code == 2
    assert result.stderr.startswith("new.py:1: ")


def test_a_file_and_a_folder_are_no_pair() -> None:
    result = run("old.py", ".")
    assert (result.exit_code, result.stderr) == (2, "old.py and . cannot be compared: name two files or two folders\n")


@pytest.mark.parametrize("words", ["old.py", "old.py new.py old.py", "old.py -", "--diff old.py new.py"])
def test_other_words_are_wrong_usage(words: str) -> None:
    result = run(*words.split())
    assert result.exit_code == 2
    assert "--compare goes with two files or two folders" in result.stderr
