"""Runs that are forked from a process that has torch imported, where nothing about that could matter to them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

from amp_migrate.verify.runs.process import Launch, Process

_SERVER = Path(__file__).parents[1] / "recorder" / "process" / "server.py"


class Forks:
    """As many servers as there are runs at a time; each forks one run after the other.

    A server ends when this process ends, because a server's parent is the thread that started it: the main thread.
    """

    def __init__(self, python: str, servers: int, environment: Mapping[str, str]) -> None:
        command = (python, str(_SERVER), str(os.getpid()))
        started = [
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,  # an answer must not wait in a buffer that `select` cannot see
            )
            for _ in range(servers)
        ]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for server in started:
            self._idle.put(server)
        self.close = weakref.finalize(self, _close, started)

    def start(self, launch: Launch, environment: Mapping[str, str]) -> Process:
        """Start a run in an idle server. Raises ChildProcessError where the server has ended."""
        server = self._idle.get()
        order = {
            "command": launch.command,
            "cwd": str(launch.cwd),
            "environment": dict(environment),
            "stdout": str(launch.stdout),
            "stderr": str(launch.stderr),
        }
        assert server.stdin is not None
        server.stdin.write(json.dumps(order).encode() + b"\n")
        return _Fork(server, self._idle)


class _Fork:
    """One forked run."""

    def __init__(self, server: subprocess.Popen[bytes], idle: SimpleQueue[subprocess.Popen[bytes]]) -> None:
        self._server = server
        self._idle = idle
        self._lock = threading.Lock()
        self._returncode: int | None = None
        self.pid = self._answer()

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; raises subprocess.TimeoutExpired."""
        assert self._server.stdout is not None
        with self._lock:
            if self._returncode is None:
                ready, _, _ = select.select([self._server.stdout], [], [], timeout)
                if not ready:
                    raise subprocess.TimeoutExpired("a forked run", timeout or 0.0)
                self._returncode = self._answer()
                self._idle.put(self._server)
            return self._returncode

    def _answer(self) -> int:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise ChildProcessError("the process that starts the runs has ended; use --no-fork")
        return int(line)


def _close(servers: list[subprocess.Popen[bytes]]) -> None:
    for server in servers:
        server.kill()
        for pipe in (server.stdin, server.stdout):
            assert pipe is not None
            pipe.close()
        server.wait()


def possible(device: str) -> bool:
    """Whether runs can be forked: on Linux, and where no GPU is used, whose state would not survive a fork."""
    return sys.platform == "linux" and (device == "cpu" or not Path("/dev/nvidiactl").exists())
