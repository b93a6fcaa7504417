"""Parts of a project that are planned in processes of their own.

Not by a `ProcessPoolExecutor`: what is asked of it just when one of its processes dies may never be answered. Here one
thread asks and listens, and the end of a process is the end of what can be heard from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from amp_migrate import interrupts
from amp_migrate.engine.outcome import Outcome, Part
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.children import Child
from amp_migrate.engine.parts.garbage import collect
from amp_migrate.engine.parts.one_by_one import OneByOne
from amp_migrate.engine.problems import refused
from amp_migrate.engine.results.examined import Looked
from amp_migrate.engine.source import display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding
from amp_migrate.settings import Settings


def in_processes(
    workspace: Workspace, settings: Settings, parts: Sequence[Part], workers: int, looked: Looked
) -> Iterator[tuple[Part, Outcome]]:
    """Plan every part in up to `workers` processes; where one dies, each file of the part it had has a finding.

    Args:
        looked: what results came to: see `OneByOne`.
    """
    workspace.settle_projects()
    left = list(reversed(parts))
    planners: list[_Planner] = []
    try:
        while left or planners:
            while left and len(planners) < workers:
                with interrupts.held():  # no child answers a signal for its parent, and the parent knows every child
                    planners.append(_Planner(workspace, settings, looked))
                planners[-1].ask(left.pop())
            ready = wait([planner.channel for planner in planners])
            for planner in [each for each in planners if each.channel in ready]:
                part: Part = planner.part
                answer: tuple[Outcome, Looked] | None = planner.answer()
                outcome, new = answer or (None, {})
                looked.update(new)
                if outcome is None or not left:
                    planners.remove(planner)
                    planner.end()
                else:
                    planner.ask(left.pop())
                yield part, outcome or Outcome((), tuple(map(_died, part)), len(part))
    finally:
        for planner in planners:
            planner.end()


class _Planner(Child):
    """A process that plans one part after the other, and the part that it has."""

    part: Part

    def __init__(self, workspace: Workspace, settings: Settings, looked: Looked) -> None:
        super().__init__(_plan, workspace, settings, looked)

    def ask(self, part: Part) -> None:
        self.part = part
        with suppress(BrokenPipeError):  # it has died: there will be no answer
            self.channel.send(part)


def _plan(channel: Connection, workspace: Workspace, settings: Settings, looked: Looked) -> None:
    planner = OneByOne(workspace, settings, looked=looked)
    while True:
        part = channel.recv()
        collect()
        before, known = work.done(), {*planner.looked}
        outcome = planner.plan(part)
        planner.forget_oldest()
        new = {each: found for each, found in planner.looked.items() if each not in known}
        channel.send(((outcome, new), work.since(before)))


def _died(path: Path) -> Finding:
    hint = "run it with --workers 1 to see more; the file is untouched"
    return refused(display_name(path), "the process that planned it died, perhaps out of memory", hint)
