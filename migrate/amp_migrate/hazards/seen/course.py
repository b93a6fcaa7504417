"""How a function uses one scaler: what happens, in which order, and in which states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.flow import events as flow
from amp_migrate.flow.domain.atoms import Atom, Value
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.hazards.seen.scaler_events import Act, Event, events_in
from amp_migrate.hazards.seen.scalers import Scalers
from amp_migrate.hazards.seen.states import Seen
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Block, header, nested_statements, walk_own

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
            happening = self.happening(event)
            if happening:
                scalers = _atoms(one.scaler for one in happening)
                found[event] = Seen()
                for machine, _, about, _ in (each for one in happening for each in one.reached):
                    found[event].add([machine], scalers, _atoms([about]))
            elif event.act is Act.READ:  # in a function that is called
                found[event] = Seen.of(self.flowing.before(self.file, event.statement), *self._stepping)
        return found

    @property
    def _stepping(self) -> tuple[set[Atom], set[Atom]]:
        """The scalers that step in it, and the optimizers."""
        steps = [one for each in self.of(Act.SCALER_STEP) for one in self.happening(each)]
        return _atoms(one.scaler for one in steps), _atoms(one.optimizer for one in steps)

    def happening(self, event: Event) -> list[flow.Event]:
        """What `flow` knows of an event."""
        return self.flowing.events(self.file, event.node, *_IN_FLOW.get(event.act, ()))

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
        here = _with_reads_elsewhere(file, flowing, body, list(events_in(file, roles, scalers, body)))
        events = tuple(each for each in here if not file.names.is_never_run(each.node))
        used = sorted({event.scaler for event in events if event.scaler})
        for scaler in used:
            own = tuple(event for event in events if event.scaler in ("", scaler))
            yield Course(file, function, body, scaler, len(used) == 1, own, flowing)


def _with_reads_elsewhere(file: File, flowing: Flowing, body: Block, events: list[Event]) -> list[Event]:
    """What a function does, with the calls of functions that read gradients: its own, and no scaler's doing."""
    known = {event.node for event in events}
    if not any(event.act is Act.SCALER_STEP for event in events):
        return events
    for statement in nested_statements(body):
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        for call in (call for part in header(statement) for call in walk_own(part) if isinstance(call, cst.Call)):
            if call not in known and flowing.only_reads(file, call):
                events.append(Event(Act.READ, call, statement))
    order = file.tree.order
    return sorted(events, key=lambda event: order[event.node])


def _atoms(values: Iterable[Value]) -> set[Atom]:
    return {each for value in values for each in value if isinstance(each, Atom)}
