"""How a function uses one scaler: what happens, in which order, and in which states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.hazards.seen.paths import Seen, TooManyPaths, walk_paths
from amp_migrate.hazards.seen.scaler_events import Act, Event, events_in
from amp_migrate.hazards.seen.scalers import Scalers
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Block, Statement


@dataclass(frozen=True, eq=False)
class Course:
    """One scaler in one function, or in a module's own code.

    Attributes:
        file: where it is.
        function: the function; None for the module's own code.
        body: its statements.
        scaler: the scaler as it is written.
        is_alone: whether no other scaler is used beside it, so that all gradients are its own.
        events: what happens, in source order; of the scalers' doings only this one's.
    """

    file: File
    function: cst.FunctionDef | None
    body: Block
    scaler: str
    is_alone: bool
    events: tuple[Event, ...]

    def of(self, *acts: Act) -> tuple[Event, ...]:
        """The events of some kinds."""
        return tuple(event for event in self.events if event.act in acts)

    @cached_property
    def seen(self) -> dict[Event, Seen]:
        """How each event is reached; empty where there are too many ways to say."""
        by_statement: dict[Statement, list[Event]] = defaultdict(list)
        for event in self.events:
            by_statement[event.statement].append(event)
        try:
            return walk_paths(self.file.tree, self.body, by_statement)
        except TooManyPaths:
            return {}

    def reached(self, *acts: Act) -> Iterator[tuple[Event, Seen]]:
        """The events of some kinds with the states they are reached in; nothing where those are unknown."""
        for event in self.of(*acts):
            if event in self.seen:
                yield event, self.seen[event]

    def loop(self, event: Event) -> cst.For | cst.While | None:
        """The innermost loop around an event."""
        return self.file.tree.loop(event.statement)


def courses(file: File, roles: Roles, scalers: Scalers) -> Iterator[Course]:
    """How each function of a file uses each of its scalers."""
    working = {file.tree.body(call) for call in scalers.works}
    for function, body in bodies(file) if working else ():
        if body not in working:
            continue
        events = tuple(events_in(file, roles, scalers, body))
        used = sorted({event.scaler for event in events if event.scaler})
        for scaler in used:
            own = tuple(event for event in events if event.scaler in ("", scaler))
            yield Course(file, function, body, scaler, len(used) == 1, own)
