"""What is said to do about a script that did not run: as much as its own last words tell."""

from __future__ import annotations

import pytest
from amp_migrate.verify.runs.next_step import next_step


@pytest.mark.parametrize(
    ("reason", "step"),
    [
        ("EOFError: EOF when reading a line", "behind `--`"),
        ("ModuleNotFoundError: No module named 'timm'", "--python"),
        ("RuntimeError: Dataset not found or corrupted. You can use download=True to download it", "--synthetic-data"),
        ("FileNotFoundError: Couldn't find any class folder in data/train.", "--synthetic-data"),
        ("URLError: <urlopen error [Errno -2] Name or service not known>", "--synthetic-data"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'", "the folder that amp-verify"),
        ("exit status 2: train.py: error: the following arguments are required: --data", "behind `--`"),
        ("exit status 2: train.py: error: unrecognized arguments: --epoch", "behind `--`"),
        ("exit status 2: Error: Missing option '--data'.", "behind `--`"),
    ],
)
def test_the_next_step_is_named(reason: str, step: str) -> None:
    assert step in next_step(reason)


@pytest.mark.parametrize(
    "reason",
    ["exit status 3: no data", "ZeroDivisionError: division by zero", "exit status 2: argument", ""],
)
def test_where_none_is_known_none_is_said(reason: str) -> None:
    assert next_step(reason) == ""
