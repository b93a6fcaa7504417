"""A pytest fixture that verifies a migration: `pytest_plugins = ["amp_migrate.verify.pytest_plugin"]`.

def test_the_migration_trains_the_same(amp_verify):
    amp_verify("train_old.py", "train.py", "--synthetic-data", arguments=["--epochs", "1"])
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amp_migrate.verify.judge.verdict import Verdict

_COMMAND = "from amp_migrate.verify.cli import main; main(prog_name='amp-verify')"


@pytest.fixture
def amp_verify(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs `amp-verify run` with the words that it is given, in the working folder of the tests.

    `arguments` are for the scripts. A verdict of PASS returns what `--json` writes, INCONCLUSIVE skips the test, and
    any other fails it with the verdict's text.
    """

    def verify(*words: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
        report = tmp_path / "amp-verify.json"
        command = (sys.executable, "-c", _COMMAND, "run", *words, "--json", str(report), "--", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == Verdict.INCONCLUSIVE.value:
            pytest.skip(f"INCONCLUSIVE\n{done.stdout}")
        if done.returncode != Verdict.PASS.value:
            pytest.fail(f"amp-verify run {' '.join(words)}\n{done.stdout}{done.stderr}", pytrace=False)
        document: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return document

    return verify
