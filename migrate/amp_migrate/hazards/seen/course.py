"""How a function uses one scaler: what happens, in which order, and in which states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.atoms import Atom
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.hazards.seen.scaler_events import Act, Event, events_in
from amp_migrate.hazards.seen.scalers import Scalers
from amp_migrate.hazards.seen.states import Seen
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Block

_IN_FLOW = {
    Act.SCALED_BACKWARD: (flow.Act.BACKWARD,),
    Act.BACKWARD: (flow.Act.BACKWARD,),
    Act.READ: (flow.Act.CLIP, flow.Act.READ),
    Act.UNSCALE: (flow.Act.UNSCALE,),
    Act.SCALER_STEP: (flow.Act.SCALER_STEP,),
    Act.STEP: (flow.Act.STEP,),
    Act.UPDATE: (flow.Act.UPDATE,),
}


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
        flowing: where it is known in which states it happens.
    """

    file: File
    function: cst.FunctionDef | None
    body: Block
    scaler: str
    is_alone: bool
    events: tuple[Event, ...]
    flowing: Flowing

    def of(self, *acts: Act) -> tuple[Event, ...]:
        """The events of some kinds."""
        return tuple(event for event in self.events if event.act in acts)

    @cached_property
    def seen(self) -> dict[Event, Seen]:
        """How each event is reached, where that is known."""
        found: dict[Event, Seen] = {}
        for event in self.events:
            happening = self.flowing.events(self.file, event.node, *_IN_FLOW.get(event.act, ()))
            if happening:
                scalers = {each for one in happening for each in one.scaler if isinstance(each, Atom)}
                optimizers = {each for one in happening for each in one.optimizer if isinstance(each, Atom)}
                machines = [machine for one in happening for machine, _ in one.states]
                found[event] = Seen.of(machines, scalers, optimizers)
        return found

    def reached(self, *acts: Act) -> Iterator[tuple[Event, Seen]]:
        """The events of some kinds with the states they are reached in; nothing where those are unknown."""
        for event in self.of(*acts):
            if event in self.seen:
                yield event, self.seen[event]

    def loop(self, event: Event) -> cst.For | cst.While | None:
        """The innermost loop around an event."""
        return self.file.tree.loop(event.statement)


def courses(file: File, roles: Roles, scalers: Scalers, flowing: Flowing) -> Iterator[Course]:
    """How each function of a file uses each of its scalers."""
    working = {file.tree.body(call) for call in scalers.works}
    for function, body in bodies(file) if working else ():
        if body not in working:
            continue
        events = tuple(events_in(file, roles, scalers, body))
        used = sorted({event.scaler for event in events if event.scaler})
        for scaler in used:
            own = tuple(event for event in events if event.scaler in ("", scaler))
            yield Course(file, function, body, scaler, len(used) == 1, own, flowing)
