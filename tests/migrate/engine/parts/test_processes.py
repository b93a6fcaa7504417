"""Processes that plan for another end when it ends, however that is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLANNING = """
import os, sys, time
from pathlib import Path
from amp_migrate import interrupts
from amp_migrate.engine.parts import at_once, one_by_one, processes
from amp_migrate.engine.workspace import Workspace
from amp_migrate.settings import Settings

def plan(*_):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(60)

one_by_one.migrate_workspace = plan
paths = [Path("a.py"), Path("b.py"), Path("c.py")]
interrupts.listen()
try:
    if sys.argv[1] == "planned":
        list(processes.in_processes(Workspace.open(paths), Settings(), [(path,) for path in paths], 2, {}))
    else:
        at_once.at_once([plan] * 3, 2)
except KeyboardInterrupt:
    sys.exit(interrupts.number())
"""


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process with the block, however that ends: a test that fails must not wait for it."""
    try:
        yield
    finally:
        process.kill()


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the children are not forked, and take long to start")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("way", ["planned", "asked"])
def test_no_process_is_left(tmp_path: Path, way: str, number: signal.Signals) -> None:
    for name in "abc":
        (tmp_path / f"{name}.py").write_text("import torch\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits that it is ignored
    parent = subprocess.Popen(
        [sys.executable, "-c", PLANNING, way], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, handler)
    with parent, killed(parent):
        assert parent.stdout is not None
        children = [int(parent.stdout.readline()) for _ in range(2)]
        parent.send_signal(number)
        assert parent.wait(timeout=20) == (-number if number == signal.SIGKILL else number)
    for _ in range(100):
        if not any(map(is_there, children)):
            break
        time.sleep(0.1)
    assert [child for child in children if is_there(child)] == []
