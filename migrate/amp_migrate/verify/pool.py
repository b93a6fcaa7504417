"""Makes runs, some at a time, and remembers what became of each."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from amp_migrate.verify import folders
from amp_migrate.verify.forks import Forks
from amp_migrate.verify.plan import Arm, Run
from amp_migrate.verify.recorder.spec import RecorderSpec
from amp_migrate.verify.run import Launch, Process, RunResult, end_group, environment, execute, start

Told = Callable[[RunResult], None]


@dataclass(frozen=True)
class Setup:
    """What all runs of a verification share.

    Attributes:
        scripts: the script of each arm.
        arguments: passed to both.
        python: the interpreter that runs them.
        cwd: the working folder; where `copy_cwd`, each run gets a copy of it.
        scratch: folder of the verification's own, holding a folder per run.
        shim: folder of the `amp_shim` package.
        device: "auto", "cuda" or "cpu".
        steps: optimizer steps per run; 0 for all.
        timing_steps: optimizer steps per timing run.
        timeout: seconds per run; 0 for no limit.
        jobs: runs at a time; timing runs are always made one at a time.
        forked: fork runs from a process that has torch imported, instead of starting an interpreter for each.
    """

    scripts: dict[Arm, Path]
    arguments: tuple[str, ...]
    python: str
    cwd: Path
    copy_cwd: bool
    scratch: Path
    shim: Path
    device: str
    steps: int
    timing_steps: int
    timeout: float
    jobs: int
    forked: bool = False


@dataclass
class Pool:
    """Runs by demand: a run that was made before is not made again."""

    setup: Setup
    told: Told
    results: dict[Run, RunResult] = field(default_factory=dict)
    forks: Forks | None = None
    _live: set[Process] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, runs: Iterable[Run]) -> None:
        """Make the runs that have not been made, `jobs` at a time; those that are timed, one by one."""
        wanted = [run for run in dict.fromkeys(runs) if run not in self.results]
        timed = any(run.timing for run in wanted)
        if self.setup.forked and wanted and self.forks is None:
            base = environment(os.environ, self._threads)
            self.forks = Forks(self.setup.python, self.setup.jobs, base)
        with ThreadPoolExecutor(1 if timed else self.setup.jobs) as executor:
            try:
                for result in executor.map(self._make, wanted):
                    self.results[result.run] = result
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise

    def _stop(self) -> None:
        """End every process that is still running."""
        with self._lock:
            live = tuple(self._live)
        for process in live:
            end_group(process)

    @contextmanager
    def _watch(self, process: Process) -> Iterator[None]:
        with self._lock:
            self._live.add(process)
        try:
            yield
        finally:
            with self._lock:
                self._live.discard(process)

    @property
    def _threads(self) -> int:
        return max(1, (os.cpu_count() or 1) // self.setup.jobs)

    def _make(self, run: Run) -> RunResult:
        setup = self.setup
        folder = setup.scratch / "runs" / run.name.replace(", ", "-").replace(" ", "-").lower()
        folder.mkdir(parents=True)
        cwd = setup.cwd
        if setup.copy_cwd:
            cwd = folder / "cwd"
            folders.copy(setup.cwd, cwd, without=setup.scratch)
        launch = Launch(
            command=(setup.python, str(setup.scripts[run.arm]), *setup.arguments),
            cwd=cwd,
            folder=folder,
            timeout=setup.timeout,
            threads=self._threads,
        )
        begin = self.forks.start if self.forks is not None else start
        result = execute(run, launch, _orders(run, setup, folder), self._watch, begin)
        if setup.copy_cwd:
            shutil.rmtree(cwd, ignore_errors=True)
        self.told(result)
        return result


def _orders(run: Run, setup: Setup, folder: Path) -> RecorderSpec:
    return RecorderSpec(
        trace=str(folder),
        parent=os.getpid(),
        shim=str(setup.shim),
        device=setup.device,
        steps=setup.timing_steps if run.timing else setup.steps,
        seed_index=run.seed_index,
        amp_off=run.amp_off,
        oracle=run.oracle,
        census=run.census,
        timing=run.timing,
        skips=run.skips,
    )
