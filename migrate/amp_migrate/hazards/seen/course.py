"""How a function uses one scaler: what happens, in which order, and in which states, as `flow` has found it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.flow import events as flow
from amp_migrate.flow.chains import exclude, in_all
from amp_migrate.flow.domain.atoms import Atom, Value
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.flowing import Flowing
from amp_migrate.hazards.seen.states import Seen
from amp_migrate.steps.statements.bodies import bodies
from amp_migrate.trees.nodes import Block, Statement, last_word
from amp_migrate.trees.own_calls import calls_in

_WORK = frozenset({"scale", "unscale_", "step", "update"})
_CLIP_NAME = re.compile(r"clip_?grad", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Event:
    """One thing that happens in a statement.

    Attributes:
        act: what; gradients that are read where their size matters are clipped, for all that matters here.
        known: what `flow` knows of it; nothing of the reads of a function that is called.
        optimizer: the optimizer as it is written; empty where none is named.
    """

    act: Act
    node: cst.CSTNode
    statement: Statement
    known: tuple[flow.Event, ...] = ()
    optimizer: str = ""

    @property
    def scalers(self) -> set[Atom]:
        """The scalers that do it, or have scaled the loss."""
        gone = (each.subject for each in self.known if self.act is Act.HANDED_ON)
        return set() if self.act is Act.CLIP else _atoms((*gone, *(each.scaler for each in self.known)))

    @property
    def is_plain(self) -> bool:
        """Whether a loss that nothing has scaled goes backward."""
        return self.act is Act.BACKWARD and not self.scalers


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

    @property
    def backwards(self) -> tuple[Event, ...]:
        """The backward passes of what is scaled."""
        return tuple(event for event in self.of(Act.BACKWARD) if not event.is_plain)

    @cached_property
    def seen(self) -> Mapping[Event, Seen]:
        """How each event is reached, where that is known."""
        steps = [one for each in self.of(Act.SCALER_STEP) for one in each.known]
        stepping = _atoms(one.scaler for one in steps), _atoms(one.optimizer for one in steps)
        found: dict[Event, Seen] = {}
        for event in self.events:
            known = [each for each in event.known if not self.flowing.is_given_up(each)]
            if known:
                found[event] = Seen()
                for machine, _, about, _ in (each for one in known for each in one.reached):
                    found[event].add([machine], event.scalers, _atoms([about]))
            elif event.act is Act.CLIP and not event.known:
                found[event] = Seen.of(self.flowing.before(self.file, event.statement), *stepping)
        return found

    def reached(self, *acts: Act) -> Iterator[tuple[Event, Seen]]:
        """The events of some kinds with the states they are reached in; nothing where those are unknown."""
        for event in self.of(*acts):
            if event in self.seen:
                yield event, self.seen[event]

    def where_scaled(self, event: Event) -> Seen:
        """How an event is reached where the tests under which the function scales its losses may come to the same.

        Where a switch that is off keeps it from scaling, `if scaler is not None:`, gradients are true ones.
        """
        scaled = [each for backward in self.backwards for each in backward.known]
        found = Seen()
        for one in () if event not in self.seen else event.known:
            tests = in_all(facts for each in scaled if each.code is one.code for _, facts in each.states)
            for machine, facts, about, _ in one.reached:
                if not exclude(tests, facts):
                    found.add([machine], event.scalers, _atoms([about]))
        return found

    def loop(self, event: Event) -> cst.For | cst.While | None:
        """The innermost loop around an event."""
        return self.file.tree.loop(event.statement)


def courses(file: File, flowing: Flowing) -> Iterator[Course]:
    """How each function of a file uses each of its scalers."""
    happening: defaultdict[Block, list[Event]] = defaultdict(list)
    for event in _events(file, flowing):
        happening[file.tree.body(event.node)].append(event)
    order = file.tree.order
    for function, body in bodies(file) if happening else ():
        written = _written(file, flowing, body)
        here = happening[body]
        if any(each.act is Act.SCALER_STEP for each in here):
            here += _reads_elsewhere(file, flowing, body, {each.node for each in here})
        here = sorted((each for each in here if not file.names.is_never_run(each.node)), key=lambda e: order[e.node])
        for scaler, atoms in written.items():
            own = tuple(event for event in here if not event.scalers or not event.scalers.isdisjoint(atoms))
            yield Course(file, function, body, scaler, len(written) == 1, own, flowing)


def _events(file: File, flowing: Flowing) -> Iterator[Event]:
    """What `flow` sees in a file, by its nodes."""
    found: defaultdict[tuple[Act, cst.CSTNode], list[flow.Event]] = defaultdict(list)
    for act, node, event in flowing.gradient_events(file):
        found[act, node].append(event)
    for (act, node), known in found.items():
        yield Event(act, node, file.tree.statement(node), tuple(known), _optimizer(file, act, node))


def _optimizer(file: File, act: Act, node: cst.CSTNode) -> str:
    """The optimizer that something is done to, as it is written."""
    if not isinstance(node, cst.Call):
        return ""
    if act in (Act.UNSCALE, Act.SCALER_STEP):
        return file.tree.code(node.args[0].value) if node.args else ""
    is_own = act is Act.STEP and isinstance(node.func, cst.Attribute)
    return file.tree.code(cst.ensure_type(node.func, cst.Attribute).value) if is_own else ""


def _written(file: File, flowing: Flowing, body: Block) -> dict[str, frozenset[Atom]]:
    """The scalers that work in a function, each as it is written first."""
    found: dict[str, frozenset[Atom]] = {}
    for _, call in calls_in(body):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _WORK:
            scalers = flowing.scalers_in(file, call.func.value)
            known = (each for each, atoms in found.items() if not atoms.isdisjoint(scalers))
            written = next(known, file.tree.code(call.func.value))
            if scalers:
                found[written] = found.get(written, frozenset()) | scalers
    return found


def _reads_elsewhere(file: File, flowing: Flowing, body: Block, known: set[cst.CSTNode]) -> list[Event]:
    """The calls of functions that clip or read gradients, and do nothing else to them; of others by their name."""
    return [
        Event(Act.CLIP, call, statement)
        for statement, call in calls_in(body)
        if call not in known
        and (flowing.only_reads(file, call) or _clips_by_name(file, flowing, call))
        and not flowing.events(file, call, Act.CLIP)  # whose limit is multiplied by the scale, too
    ]


def _clips_by_name(file: File, flowing: Flowing, call: cst.Call) -> bool:
    return _CLIP_NAME.search(last_word(call.func)) is not None and not flowing.is_followed(file, call)


def _atoms(values: Iterable[Value]) -> set[Atom]:
    return {each for value in values for each in value if isinstance(each, Atom)}
