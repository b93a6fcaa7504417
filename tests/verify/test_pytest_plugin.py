"""The fixture for other projects' tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "scripts"


def outcome(folder: Path, body: str) -> str:
    """What pytest says of a test with this body, in a folder of its own."""
    (folder / "conftest.py").write_text('pytest_plugins = ["amp_migrate.verify.pytest_plugin"]\n')
    (folder / "test_amp.py").write_text(f"def test_amp(amp_verify):\n    {body}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def test_a_right_migration_passes_and_gives_its_numbers(tmp_path: Path) -> None:
    scripts = f"{str(SCRIPTS / 'cuda_amp.py')!r}, {str(SCRIPTS / 'fp16.py')!r}"
    options = "'--device', 'cpu', arguments=['--steps', '21']"
    assert "1 passed" in outcome(tmp_path, f"assert amp_verify({scripts}, {options})['early']['S'] == 0")


def test_what_is_no_pass_fails_with_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing')\n")
    said = outcome(tmp_path, "amp_verify('train.py', 'train.py', '--device', 'cpu', '--no-fork')")
    assert "1 failed" in said
    assert "VACUOUS: same number of steps: no backward pass was seen in either script" in said
    assert "1 failed" in outcome(tmp_path, "amp_verify('no.py')")


def test_an_open_verdict_skips(tmp_path: Path) -> None:
    stand_in = "import subprocess; subprocess.run = lambda *a, **k: subprocess.CompletedProcess(a, 3, 'too close', '')"
    said = outcome(tmp_path, f"{stand_in}\n    amp_verify('train.py')")
    assert "1 skipped" in said
    assert "INCONCLUSIVE" in said
