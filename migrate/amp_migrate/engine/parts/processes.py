"""Parts of a project that are planned in processes of their own."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TypeAlias

from amp_migrate.engine.migrate import migrate_workspace
from amp_migrate.engine.outcome import Outcome, Part
from amp_migrate.engine.parsed_files import Parsed, forget_oldest
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.garbage import collect
from amp_migrate.engine.parts.work import Work
from amp_migrate.engine.problems import refused
from amp_migrate.engine.source import display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding
from amp_migrate.settings import Settings

Done: TypeAlias = tuple[Outcome, Mapping[Work, int]]


def in_processes(
    workspace: Workspace, settings: Settings, parts: Sequence[Part], workers: int
) -> Iterator[tuple[Part, Outcome]]:
    """Plan every part in up to `workers` processes; where one dies, every part not done yet has a finding for it."""
    workspace.settle_projects()
    # Forking spares each child the imports; elsewhere it is not to be had, or not to be trusted.
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(workers, len(parts)), context, _start, (workspace, settings)) as pool:
        try:
            futures = {_asked(pool, part): part for part in parts}
            for future in as_completed(futures):
                part = futures[future]
                try:
                    outcome, done = future.result()
                    work.add(done)
                    yield part, outcome
                except BrokenProcessPool:
                    yield part, Outcome((), tuple(map(_died, part)), len(part))
        except BaseException:  # nobody wants to know any more, and the pool would wait for all that was asked of it
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                child.terminate()
            raise


def _asked(pool: ProcessPoolExecutor, part: Part) -> Future[Done]:
    try:
        return pool.submit(_work, part)
    except BrokenProcessPool as error:  # the first part may kill its process before the last is asked for
        failed: Future[Done] = Future()
        failed.set_exception(error)
        return failed


_given: tuple[Workspace, Settings]
_parsed: Parsed = {}  # what many parts import is parsed once in each process


def _start(workspace: Workspace, settings: Settings) -> None:
    global _given  # noqa: PLW0603  # the way of the standard library to hand a worker what all its tasks need
    _given = workspace, settings
    gc.freeze()  # what was there before the fork is nothing to look for garbage in
    for name in ("SIGINT", "SIGHUP"):  # the parent ends the children, by a signal that is the system's to answer
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """Without this, what a parent leaves that is killed waits for it for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(part: Part) -> Done:
    workspace, settings = _given
    collect()
    before = work.done()
    outcome = migrate_workspace(workspace.focused(part), settings, _parsed)
    forget_oldest(_parsed)
    return outcome, work.since(before)


def _died(path: Path) -> Finding:
    hint = "run it with --workers 1 to see more; the file is untouched"
    return refused(display_name(path), "the process that planned it died, perhaps out of memory", hint)
