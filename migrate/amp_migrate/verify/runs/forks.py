"""Runs that are forked from a process that has torch imported, and has used no GPU: each run turns to it itself."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from queue import SimpleQueue

from amp_migrate.verify.runs.process import Launch, Process, start

_SERVER = Path(__file__).parents[1] / "recorder" / "process" / "server.py"
_ENDED = "the process that starts the runs has ended; use --no-fork"


class Forks:
    """As many servers as there are runs at a time; each forks one run after the other.

    They are forks of one process, which imports torch for all. It ends when this process ends, because its parent is
    the thread that started it: the main thread.
    """

    def __init__(self, python: str, servers: int, environment: Mapping[str, str]) -> None:
        pairs = [socket.socketpair() for _ in range(servers)]
        theirs = [their.fileno() for _, their in pairs]
        started = subprocess.Popen(
            (python, str(_SERVER), str(os.getpid()), *map(str, theirs)),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=theirs,
        )
        self._idle: SimpleQueue[FileIO] = SimpleQueue()
        channels = []
        for ours, their in pairs:
            their.close()
            # An answer must not wait in a buffer that `select` cannot see.
            channels.append(open(ours.detach(), "r+b", buffering=0))  # noqa: SIM115
            self._idle.put(channels[-1])
        self.close = weakref.finalize(self, _close, started, channels)

    def start(self, launch: Launch, environment: Mapping[str, str]) -> Process:
        """Start a run in an idle server, or a fresh interpreter where no fork of it could use a GPU.

        Raises ChildProcessError where the server has ended.
        """
        server = self._idle.get()
        order = {
            "command": launch.command,
            "cwd": str(launch.cwd),
            "environment": dict(environment),
            "stdout": str(launch.stdout),
            "stderr": str(launch.stderr),
        }
        try:
            server.write(json.dumps(order).encode() + b"\n")
            forked = _Fork(server, self._idle)
        except OSError as error:
            self._idle.put(server)  # who comes next is to hear of it, not to wait
            raise ChildProcessError(_ENDED) from error
        if forked.pid:
            return forked
        self._idle.put(server)
        return start(launch, environment)


class _Fork:
    """One forked run."""

    def __init__(self, server: FileIO, idle: SimpleQueue[FileIO]) -> None:
        self._server = server
        self._idle = idle
        self._lock = threading.Lock()
        self._returncode: int | None = None
        self.pid = self._answer()

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; raises subprocess.TimeoutExpired."""
        with self._lock:
            if self._returncode is None:
                ready, _, _ = select.select([self._server], [], [], timeout)
                if not ready:
                    raise subprocess.TimeoutExpired("a forked run", timeout or 0.0)
                try:
                    self._returncode = self._answer()
                finally:
                    self._idle.put(self._server)
            return self._returncode

    def _answer(self) -> int:
        line = self._server.readline()
        if not line:
            raise ChildProcessError(_ENDED)
        return int(line)


def _close(server: subprocess.Popen[bytes], channels: list[FileIO]) -> None:
    server.kill()
    for channel in channels:
        channel.close()
    server.wait()


def possible() -> bool:
    """Whether runs can be forked: on Linux."""
    return sys.platform == "linux"
