"""One script, one process: started with the recorder in it, watched, and ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from amp_migrate.verify.recorded.events import read_ranks
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.recorder.spec import ENVIRONMENT_VARIABLE, RecorderSpec
from amp_migrate.verify.runs.kinds import Run
from amp_migrate.verify.runs.next_step import next_step

_BOOTSTRAP = Path(__file__).parents[1] / "recorder" / "bootstrap"
_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.2
OUTPUT_BYTES = 64 * 2**20

# A ruled line: torchrun frames what it says of the process that failed with them.
_RULED = re.compile(r"^\s*([-=*#_~])\1{3,}\s*$", re.MULTILINE)
# What PyTorch, the C library and Python say when memory runs out.
_OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "out of memory", "can't allocate memory", "Cannot allocate memory")


@dataclass(frozen=True)
class Launch:
    """How to start a script.

    Attributes:
        command: interpreter, script and arguments.
        cwd: working folder.
        folder: where the run's orders, trace and logs go; it exists.
        timeout: seconds after which the run is ended; 0 for never.
        threads: CPU threads for torch.
    """

    command: tuple[str, ...]
    cwd: Path
    folder: Path
    timeout: float
    threads: int

    @property
    def stdout(self) -> Path:
        """Where the script's output goes."""
        return self.folder / "stdout.log"

    @property
    def stderr(self) -> Path:
        """Where its error output goes."""
        return self.folder / "stderr.log"


@dataclass(frozen=True)
class RunResult:
    """What became of a run.

    Attributes:
        returncode: the process's exit status, negative for a signal; None where the harness ended it.
        folder: holds `stdout.log` and `stderr.log`.
        ended: why the harness ended it; empty where it ended by itself.
        cached: made by an earlier verification.
    """

    run: Run
    command: tuple[str, ...]
    folder: Path
    returncode: int | None
    seconds: float
    trace: Trace
    ended: str = ""
    cached: bool = False

    @property
    def ended_well(self) -> bool:
        """The script ended by itself without an error, or was stopped after the steps asked for."""
        return self.trace.stopped or self.returncode == 0

    @property
    def log(self) -> Path:
        """The script's error output."""
        return self.folder / "stderr.log"

    @property
    def complaint(self) -> str:
        """Why the run did not end well, in one line, with the next step where there is one."""
        reason, step = self._reason(), self._next_step()
        return f"{reason}; {step}" if step else reason

    def _next_step(self) -> str:
        if self.out_of_memory:
            return "make the batch smaller, or run with --jobs 1"
        failure = self.trace.failure
        if failure is not None:
            return next_step(f"{failure.type}: {failure.message}")
        return "" if self.ended or self.trace.refused else next_step(self._reason())

    @property
    def out_of_memory(self) -> bool:
        """Whether memory ran out."""
        return not self.ended_well and any(text in self._reason() for text in _OUT_OF_MEMORY)

    def _reason(self) -> str:
        if self.ended:
            return self.ended
        if self.trace.refused:
            return self.trace.refused
        failure = self.trace.failure
        if failure is not None:
            message = " ".join(_RULED.sub("", failure.message).split())
            place = f"{failure.place}: " if failure.place else ""
            return f"{place}{failure.type}: {message}" if message else f"{place}{failure.type}"
        if self.returncode is not None and self.returncode < 0:
            return f"ended by {_signal(-self.returncode)}"
        last = _last_line(self.log)
        return f"exit status {self.returncode}" + (f": {last}" if last else "")


class Process(Protocol):
    """A script's process, which is the leader of a process group of its own."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, negative for a signal; raises subprocess.TimeoutExpired."""


Watch = Callable[[Process], AbstractContextManager[None]]
Start = Callable[[Launch, Mapping[str, str]], Process]


def start(launch: Launch, environment: Mapping[str, str]) -> Process:
    """Start a fresh interpreter."""
    with open(launch.stdout, "wb") as out, open(launch.stderr, "wb") as err:
        return subprocess.Popen(
            launch.command,
            cwd=launch.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # one group, so that a script's own workers end with it
        )


def execute(run: Run, launch: Launch, spec: RecorderSpec, watch: Watch, start: Start = start) -> RunResult:
    """Run a script to its end, or to a limit: of steps, of time, of output. `watch` surrounds the process's life."""
    orders = launch.folder / "spec.json"
    spec.write(orders)
    for log in (launch.stdout, launch.stderr):
        log.touch()  # a process that is forked opens them when its turn comes
    process = start(launch, _recorded(environment(os.environ, launch.threads), orders))
    began = time.monotonic()
    with watch(process):
        try:
            returncode, ended = _wait(process, launch, began)
        finally:
            end_group(process)
    return RunResult(
        run=run,
        command=launch.command,
        folder=launch.folder,
        returncode=returncode,
        seconds=time.monotonic() - began,
        trace=read_ranks(Path(spec.trace)),
        ended=ended,
    )


def _wait(process: Process, launch: Launch, began: float) -> tuple[int | None, str]:
    """The exit status; or None, and the limit that was passed."""
    while True:
        try:
            return process.wait(timeout=_LOOK_SECONDS), ""
        except subprocess.TimeoutExpired:
            pass
        seconds = time.monotonic() - began
        if launch.timeout and seconds > launch.timeout:
            return None, f"still running after {seconds:.0f} s; --timeout sets the limit"
        if any(log.stat().st_size > OUTPUT_BYTES for log in (launch.stdout, launch.stderr)):
            return None, f"more than {OUTPUT_BYTES // 2**20} MiB of output: ended"


def environment(inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    """The user's environment, with what makes two runs alike."""
    return {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        **inherited,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ in the user's folders
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }


def _recorded(environment: Mapping[str, str], orders: Path) -> dict[str, str]:
    """The same with the recorder in it."""
    search = [str(_BOOTSTRAP), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, ENVIRONMENT_VARIABLE: str(orders), "PYTHONPATH": os.pathsep.join(search)}


def end_group(process: Process) -> None:
    """End what is left of the process's group: politely, then not."""
    for request in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, request)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            continue


def _signal(number: int) -> str:
    if number == signal.SIGKILL:
        return "SIGKILL, as the system does when memory runs out"
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
