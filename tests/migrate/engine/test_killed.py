"""A run that is killed at any moment loses nothing, and the next one finishes the work."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from amp_migrate.engine.journal import FOLDER
from amp_migrate.engine.scope import Scope
from amp_migrate.run import Request, execute, undo
from amp_migrate.settings import Settings

pytestmark = [pytest.mark.usefixtures("toy_planner"), pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]
KILLS = 200
OLD, NEW = b"amp, old_amp = 1, 2\n", b"amp, new_amp = 1, 2\n"


def run(root: Path) -> int:
    return execute(Request((root,), Settings(), Scope(gitignore=False)))


def killed_run(root: Path, after: float) -> bool:
    """Start a run in a child and kill it `after` seconds; whether it was still running."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(run(root))
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_no_file_is_lost_or_half_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a killed process wrote, the system still has: waiting for the disk matters only when the power fails.
    monkeypatch.setattr("os.fsync", lambda _: None)
    files = [tmp_path / f"{number}.py" for number in range(8)]
    for file in files:
        file.write_bytes(OLD)
    start = time.perf_counter()
    assert run(tmp_path) == 0
    duration = time.perf_counter() - start
    clock = random.Random(0)
    caught = half_way = 0
    for _ in range(KILLS):
        assert undo([tmp_path]) == 0
        caught += killed_run(tmp_path, clock.uniform(0, 1.2 * duration))
        contents = [file.read_bytes() for file in files]
        assert set(contents) <= {OLD, NEW}
        half_way += len(set(contents)) == 2
        assert run(tmp_path) == 0
        assert {file.read_bytes() for file in files} == {NEW}
        assert sorted(os.listdir(tmp_path)) == sorted([FOLDER, *(file.name for file in files)])
    capsys.readouterr()
    # The kills must have hit runs, and some of them the moments between the first file and the last.
    assert caught > KILLS / 4
    assert half_way > 0
