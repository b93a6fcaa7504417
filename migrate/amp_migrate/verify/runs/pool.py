"""Makes runs, some at a time, and remembers what became of each."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from amp_migrate.verify.recorded import metrics
from amp_migrate.verify.recorder.spec import RecorderSpec, Resume
from amp_migrate.verify.runs import folders, outputs
from amp_migrate.verify.runs.cache import Cache
from amp_migrate.verify.runs.forks import Forks
from amp_migrate.verify.runs.kinds import DRILL_STEPS, MIGRATED, MIGRATED_OFF, ORIGINAL, STEPS, Run
from amp_migrate.verify.runs.process import Launch, Process, RunResult, end_group, environment, execute, start
from amp_migrate.verify.runs.setup import Setup

_CLOCK_SECONDS = 0.1  # by which the clock of files may be behind

Told = Callable[[RunResult], None]
Running = Callable[[Run, Path, int], AbstractContextManager[None]]


def _unseen(run: Run, folder: Path, steps: int) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass
class Pool:
    """Runs by demand: a run that was made before is not made again.

    Attributes:
        told: called with what became of a run.
        running: surrounds a run that is being made: which, its folder, and how many steps it is to make.
    """

    setup: Setup
    told: Told
    results: dict[Run, RunResult] = field(default_factory=dict)
    forks: Forks | None = None
    cache: Cache | None = None
    running: Running = _unseen
    _live: set[Process] = field(default_factory=set)
    _stopped: bool = False
    _fault: BaseException | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make(self, runs: Iterable[Run]) -> None:
        """Make the runs that have not been made, `jobs` at a time; those that are timed, one by one."""
        wanted = [run for run in dict.fromkeys(runs) if run not in self.results]
        timed = any(run.timing for run in wanted)
        self._stopped, self._fault = False, None
        if self.setup.forked and wanted and self.forks is None:
            base = environment(os.environ, self.threads)
            self.forks = Forks(self.setup.python, self.setup.jobs, base)
        with ThreadPoolExecutor(1 if timed else self.setup.jobs) as executor:
            try:
                for result in executor.map(self._make_unless_stopped, wanted):
                    self.results[result.run] = result
            except BaseException as error:
                executor.shutdown(wait=False, cancel_futures=True)
                self._stop()
                if isinstance(error, CancelledError) and self._fault is not None:
                    raise self._fault from None
                raise

    def settle(self, first: RunResult) -> None:
        """Let all further runs make as many steps as the first one, which had a time in which to make them."""
        if self.setup.seconds:
            made = Counter(step.optimizer for step in first.trace.steps)
            steps = max(made.values(), default=0) if first.trace.stopped else 0
            self.setup = replace(self.setup, steps=steps, seconds=0.0)

    def _stop(self) -> None:
        """End every process that is still running, and each that is about to."""
        with self._lock:
            self._stopped = True
            live = tuple(self._live)
        for process in live:
            end_group(process)

    @contextmanager
    def _watch(self, process: Process) -> Iterator[None]:
        with self._lock:
            self._live.add(process)
            stopped = self._stopped
        try:
            if stopped:
                end_group(process)
            yield
        finally:
            with self._lock:
                self._live.discard(process)

    def _beside(self, run: Run) -> str:
        """The records that tell while a run lasts whether it is lost: the original's, where it is in float32."""
        original = self.results.get(ORIGINAL)
        if run not in (MIGRATED, MIGRATED_OFF) or original is None or not original.ended_well:
            return ""
        return "" if original.trace.uses_amp else str(original.folder)

    @property
    def threads(self) -> int:
        """CPU threads of a run."""
        return max(1, (os.cpu_count() or 1) // self.setup.jobs)

    def _make_unless_stopped(self, run: Run) -> RunResult:
        """Make a run, or none behind one that has failed, which a thread may come to before anybody hears of that."""
        if self._stopped:
            raise CancelledError
        try:
            return self._make(run)
        except BaseException as error:
            self._fault, self._stopped = self._fault or error, True
            raise

    def _make(self, run: Run) -> RunResult:
        setup = self.setup
        orders = _orders(run, setup, self._beside(run))
        if self.cache is not None and (found := self.cache.find(run, orders)) is not None:
            self.told(found)
            return found
        folder = folders.new(setup.scratch / "runs", re.sub(r"[^\w.=-]+", "-", run.name).lower())
        cwd, script = setup.cwd, setup.scripts[run.arm]
        if setup.copy_cwd:
            users = setup.cwd.resolve()
            cwd = folders.copy_beside(users, folder / "cwd", setup.scratch, script.changed)
            copies = {**orders.copies, str(folder / "cwd"): str(folders.top_of(users))}
            orders = replace(orders, copies=copies)
        before = outputs.listing(cwd) if setup.copy_cwd and run.program else {}
        command = (*(setup.launch or (setup.python,)), *script.words, *setup.arguments)
        launch = Launch((*command, *run.arguments), cwd, folder, timeout=setup.timeout, threads=self.threads)
        began = time.time() - _CLOCK_SECONDS
        begin = self.forks.start if self.forks is not None else start
        with self.running(run, folder, orders.steps):
            saved = None
            if run.resume is Resume.GOES_ON:
                before_it = replace(launch, command=command, folder=folders.new(folder, "saves"))
                saving = replace(orders, steps=setup.steps, resume=Resume.SAVES, trace=str(before_it.folder))
                saved = execute(run, before_it, replace(saving, port=_free_port()), self._watch, begin)
            if saved is None or saved.ended_well:
                own = replace(orders, trace=str(folder), port=_free_port())
                result = execute(run, launch, own, self._watch, begin)
            else:
                result = saved
        if saved is not None and saved is not result:
            result = replace(result, trace=replace(result.trace, states=(*saved.trace.states, *result.trace.states)))
        if setup.metrics:
            metrics.collect(cwd, setup.metrics, began, folder)
        if setup.copy_cwd and run.program:
            outputs.keep(cwd, before, folder)
        if self.cache is not None and not run.resume:  # two runs, of which it would keep one
            self.cache.keep(result, orders)
        if setup.copy_cwd:
            shutil.rmtree(folder / "cwd", ignore_errors=True)
        self.told(result)
        return result


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _orders(run: Run, setup: Setup, reference: str) -> RecorderSpec:
    return RecorderSpec(
        trace="",  # the folder of the run, where one is made
        parent=os.getpid(),
        shim=str(setup.shim),
        device=setup.device,
        steps=_steps(run, setup),
        seconds=0.0 if run.timing or run.whole or run.early or run.drill or run.resume else setup.seconds,
        synthetic=setup.synthetic,
        reference=reference,
        root=str(setup.scripts[run.arm].root or ""),
        instead={str(path): str(other) for path, other in setup.scripts[run.arm].changed.items()},
        extensions=str(setup.scratch / "extensions"),
        copies={str(own): str(theirs) for own, theirs in setup.scripts[run.arm].copies.items()},
        **run.orders(),
    )


def _steps(run: Run, setup: Setup) -> int:
    if run.drill:
        return DRILL_STEPS
    if run.resume:
        return 1
    if run.timing or run.whole:
        return setup.timing_steps if run.timing else setup.whole_steps
    return min(setup.steps or STEPS, STEPS) if run.early else setup.steps
