"""One script, one process: started with the recorder in it, watched, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from amp_migrate.verify.plan import Run
from amp_migrate.verify.recorder.spec import ENVIRONMENT_VARIABLE, RecorderSpec
from amp_migrate.verify.trace import Trace, read

_BOOTSTRAP = Path(__file__).parent / "recorder" / "bootstrap"
_GRACE_SECONDS = 5.0


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


@dataclass(frozen=True)
class RunResult:
    """What became of a run.

    Attributes:
        returncode: the process's exit status, negative for a signal; None where the time ran out.
        folder: holds `stdout.log` and `stderr.log`.
    """

    run: Run
    command: tuple[str, ...]
    folder: Path
    returncode: int | None
    seconds: float
    trace: Trace

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
        """Why the run did not end well, in one line."""
        if self.returncode is None:
            return f"still running after {self.seconds:.0f} s"
        if self.trace.refused:
            return self.trace.refused
        failure = self.trace.failure
        if failure is not None:
            message = " ".join(failure.message.split())
            place = f"{failure.place}: " if failure.place else ""
            return f"{place}{failure.type}: {message}" if message else f"{place}{failure.type}"
        if self.returncode < 0:
            return f"ended by {signal.Signals(-self.returncode).name}"
        last = _last_line(self.log)
        return f"exit status {self.returncode}" + (f": {last}" if last else "")


Process = subprocess.Popen[bytes]


Watch = Callable[[Process], AbstractContextManager[None]]


def execute(run: Run, launch: Launch, spec: RecorderSpec, watch: Watch) -> RunResult:
    """Run a script to its end, its step limit or its time limit. `watch` surrounds the life of the process."""
    orders = launch.folder / "spec.json"
    spec.write(orders)
    began = time.monotonic()
    with open(launch.folder / "stdout.log", "wb") as out, open(launch.folder / "stderr.log", "wb") as err:
        process = subprocess.Popen(
            launch.command,
            cwd=launch.cwd,
            env=_environment(os.environ, orders, launch.threads),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,  # one group, so that a script's own workers end with it
        )
        with watch(process):
            try:
                returncode: int | None = process.wait(timeout=launch.timeout or None)
            except subprocess.TimeoutExpired:
                returncode = None
            finally:
                end_group(process)
    return RunResult(
        run=run,
        command=launch.command,
        folder=launch.folder,
        returncode=returncode,
        seconds=time.monotonic() - began,
        trace=read(Path(spec.trace) / "rank-0.jsonl"),
    )


def _environment(inherited: Mapping[str, str], orders: Path, threads: int) -> dict[str, str]:
    """The user's environment, with the recorder in it and what makes two runs alike."""
    search = [str(_BOOTSTRAP), *filter(None, [inherited.get("PYTHONPATH")])]
    return {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        **inherited,
        ENVIRONMENT_VARIABLE: str(orders),
        "PYTHONPATH": os.pathsep.join(search),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",  # no __pycache__ in the user's folders
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }


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


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
