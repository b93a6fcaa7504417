"""A run that is killed at any moment loses nothing, and the next one finishes the work."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from amp_migrate.engine.journal import FOLDER
from amp_migrate.engine.scope import Scope
from amp_migrate.run import Request, execute, undo
from amp_migrate.settings import Settings

pytestmark = [pytest.mark.usefixtures("toy_planner"), pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]
KILLS = 200
OLD, NEW = b"amp, old_amp = 1, 2\n", b"amp, new_amp = 1, 2\n"


@pytest.fixture(autouse=True)
def light_forks() -> Iterator[None]:
    """Keep the collector off what other tests have left: a child that looks at it copies every page."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    # What a killed process wrote, the system still has: waiting for the disk matters only when the power fails.
    monkeypatch.setattr("os.fsync", lambda _: None)
    files = [tmp_path / f"{number}.py" for number in range(4)]
    for file in files:
        file.write_bytes(OLD)
    # The first run loads what later runs find loaded.
    assert run(tmp_path) == 0
    assert undo([tmp_path]) == 0
    return files


def run(root: Path) -> int:
    return execute(Request((root,), Settings(), Scope(gitignore=False)))


def start(root: Path, events: int | None = None) -> int:
    """Run in a child, which kills itself when it turns to the file system for the `events`th time."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    left = events

    def count(event: str, _: object) -> None:
        nonlocal left
        if left is not None and (event == "open" or event.startswith("os.")) and event != "os.kill":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    os._exit(run(root))


def killed(child: int) -> bool:
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def is_half_way(files: list[Path]) -> bool:
    """Whether some files are changed and others not; each of them must be one of the two as a whole."""
    contents = {file.read_bytes() for file in files}
    assert contents <= {OLD, NEW}
    return len(contents) == 2


def finish(root: Path, files: list[Path]) -> None:
    assert run(root) == 0
    assert {file.read_bytes() for file in files} == {NEW}
    assert sorted(os.listdir(root)) == sorted([FOLDER, *(file.name for file in files)])
    assert undo([root]) == 0
    assert {file.read_bytes() for file in files} == {OLD}


def test_killed_between_any_two_steps(tmp_path: Path, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    half_way = events = 0
    while killed(start(tmp_path, events)):
        half_way += is_half_way(files)
        finish(tmp_path, files)
        events += 1
    capsys.readouterr()
    # Every file is read, written aside and put in place; most of the kills in the last part leave work half done.
    assert events > 3 * len(files)
    assert half_way >= len(files) - 1


def test_killed_at_random_moments(tmp_path: Path, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    began = time.perf_counter()
    assert not killed(start(tmp_path))
    duration = time.perf_counter() - began
    finish(tmp_path, files)
    clock = random.Random(0)
    for _ in range(KILLS):
        child = start(tmp_path)
        time.sleep(clock.uniform(0, 1.2 * duration))
        os.kill(child, signal.SIGKILL)
        killed(child)
        is_half_way(files)
        finish(tmp_path, files)
    capsys.readouterr()
