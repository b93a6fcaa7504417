"""One function with what it is given: what it returns, and what it does to scalers, gradients, contexts and cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from amp_migrate.flow.domain.atoms import NEVER, UNKNOWN, Atom, FrameRef, Value
from amp_migrate.flow.domain.contexts import Context
from amp_migrate.flow.domain.machine import Key, Machine, Ways, World, Worlds, common, merged
from amp_migrate.flow.domain.running import Running
from amp_migrate.flow.domain.state import Cell
from amp_migrate.flow.events import Event
from amp_migrate.flow.source import Code, Site

NONE: Mapping[Cell, Value] = MappingProxyType({})
Changes: TypeAlias = Mapping[Machine, "tuple[dict[Key, Any], ...]"]


class Task:
    """A function, or a module's own code, for one set of arguments and contexts, and its summary so far.

    Attributes:
        given: the values of its parameters.
        around: names of its file that are bound anew between calls, as they are where it is called.
        context: what is switched on where it is called.
        entries: the states of scalers and gradients that it has been asked about.
        value: what it may return.
        exits: the states that it may leave behind; what it raises in `raised`.
        touched: what it asks or changes of a state, itself or by what it calls.
        cells: attributes whose value is known where it returns.
        written: attributes that it may change.
        made_leaves: the parameters whose tensors have a gradient of their own where it returns, and had none before.
        casts: the leaves that it casts in the regions of its callers, whether gradients are recorded there (`AS_CALLER`
            where the call itself does not say), and where.
        happened: what happened when it was last interpreted.
        callers: who calls it, and the version of its summary that each has seen.
        called: what it called when it was last interpreted.
        running: the objects that it is calling.
        leaves_on: what is switched on where it returns; None where it does not return.
        is_given_up: whether it did not come to rest, so that nothing is known of it.
        is_joined: whether it was asked about so many states that they were made one, which stands for all since.
        is_many: whether it may run more than once in a run of the program.
        called_from: of one of an installed package, where the project's own callers call it.
    """

    def __init__(
        self, code: Code, ref: FrameRef, given: dict[str, Value], context: Context, around: Mapping[Cell, Value] = NONE
    ) -> None:
        self.code, self.ref, self.given, self.context, self.around = code, ref, given, context, around
        self.entries: set[Machine] = set()
        self.value: Value = NEVER
        self.exits, self.raised = Ways(), Ways()
        self.touched: set[Key] = set()
        self.cells: dict[Cell, Value] = {}
        self.written: set[Cell] = set()
        self.made_leaves: dict[str, Atom] = {}
        self.casts: dict[tuple[Atom, int, Site], None] = {}
        self.leaves_on: Context | None = None
        self.happened: dict[Event, None] = {}
        self.callers: dict[Task, int] = {}
        self.called: dict[Task, None] = {}
        self.running = Running()
        self.version = 0
        self.is_active = False
        self.is_outdated = False
        self.has_run = False
        self.is_given_up = False
        self.is_joined = False
        self.is_many = False
        self.called_at: Site | None = None
        self.called_from: dict[Task, set[Site]] = {}
        self.runs = 0
        self.widenings = 0
        self._keys: frozenset[Key] = frozenset()
        self._asked: set[Machine] = set()
        self._news = 0
        self._through: dict[Ways, tuple[frozenset[Key], int, Changes, dict[Worlds, Worlds]]] = {}

    @property
    def keys(self) -> frozenset[Key]:
        """What it has asked or changed of a state so far, as one object for as long as that does not grow."""
        if len(self._keys) != len(self.touched):
            self._keys = frozenset(self.touched)
        return self._keys

    def raises(self, worlds: Worlds) -> None:
        """Note that something may be raised in these worlds."""
        self._note(self.raised, worlds)

    def leaves(self, worlds: Worlds) -> None:
        """Note that it may return in these worlds."""
        self._note(self.exits, worlds)

    def _note(self, ways: Ways, worlds: Worlds) -> None:
        if worlds in ways.noted:
            return
        ways.noted.add(worlds)
        by_entry: dict[Machine, list[Machine]] = {}
        for world in worlds:
            by_entry.setdefault(world.entry, []).append(world.now)
        for entry, states in by_entry.items():
            if ways.add(entry, states):
                # What nobody has asked for yet is read when it is done.
                self._news += self.is_joined or entry.only(self.keys) in self._asked

    def join_entries(self, more: Iterable[Machine] = ()) -> None:
        """Let one state stand for all that it is asked about: in it only that is known which is known in each."""
        known = [*self.entries, *more]
        joined = common(known)
        is_wider = joined.only(self.keys) not in {each.only(self.keys) for each in self.entries}
        if is_wider or not self.is_joined:
            self.is_joined, self.is_outdated = True, True
            self.entries = {joined}

    def through(self, ways: Ways, worlds: Worlds) -> Worlds:
        """The worlds behind a call of it, on each of the ways through."""
        if self.is_joined:
            return self._through_as_one(ways, worlds)
        keys, version, changes, found = self._through.get(ways, (None, 0, {}, {}))
        if keys is not self.keys or version != ways.version:
            changes, found = self._changes(ways), {}
            self._through[ways] = (self.keys, ways.version, changes, found)
        if worlds not in found:
            entries = {world: world.now.only(self.keys) for world in worlds}
            self._asked.update(entries.values())
            after = (
                World(world.entry, world.facts, world.now.but(each)) if each else world
                for world, entry in entries.items()
                for each in changes.get(entry, ())
            )
            found[worlds] = merged(after)
        return found[worlds]

    def _through_as_one(self, ways: Ways, worlds: Worlds) -> Worlds:
        """The same where one state stands for those of all callers: behind the call, they know no more than it does."""
        (entry,) = self.entries
        left = ways.states.get(entry)
        if not left:
            return frozenset()
        after = common(left).only(self.keys)
        return merged(World(each.entry, each.facts, each.now.replaced(self.keys, after)) for each in worlds)

    def _changes(self, ways: Ways) -> Changes:
        """What is changed on each of the ways through, by as much of a caller's state as matters."""
        by_entry: dict[Machine, dict[Machine, dict[Key, Any]]] = {}
        for entry, leaving in ways.states.items():
            own = entry.only(self.keys)
            changes = by_entry.setdefault(own, {})
            for each in leaving:
                after = each.only(self.keys)
                changes[after] = own.difference(after)
        return {entry: tuple(changes.values()) for entry, changes in by_entry.items()}

    def give_up(self) -> None:
        """Give anything from now on, and leave nothing behind that anybody knows."""
        self.is_given_up, self.is_outdated, self.is_joined = True, False, False
        self.value = UNKNOWN
        self.cells = {}
        self.exits, self.raised = Ways(), Ways()
        self.leave_unknown(self.entries)
        self.version += 1

    def leave_unknown(self, entries: Iterable[Machine]) -> None:
        """Let what this changes be unknown behind it, for some states in which it is entered."""
        self.entries |= set(entries)
        for each in self.entries:
            if each not in self.exits.states:
                self.exits.add(each, [each.losing(self.touched)])
        self.leaves_on = self.leaves_on or self.context

    @property
    def is_reached(self) -> bool:
        """Whether the code of a file comes to it by calls, as it was last interpreted.

        What was called with less than is known by now is not: other arguments make another task.
        """
        return any(each.code.parent is None for each in with_callers((self,)))

    def no_longer_calls(self, before: Iterable[Task]) -> None:
        """Tell what it called when it was interpreted before, and not now."""
        for each in before:
            if each not in self.called:
                each.callers.pop(self, None)

    def summary(self) -> tuple[object, ...]:
        """What callers go by: they look again when it changes."""
        return (
            self.value,
            self._news,
            len(self.touched),
            dict(self.cells),
            len(self.written),
            len(self.casts),
            dict(self.made_leaves),
            self.leaves_on,
        )

    def __repr__(self) -> str:
        return f"{self.code.file}:{self.code.site.line} {self.code.name}"


def with_callers(tasks: Iterable[Task]) -> Iterator[Task]:
    """Tasks, and all that lead to them by calls, the nearest first."""
    return _with_more(tasks, attrgetter("callers"))


def with_called(tasks: Iterable[Task]) -> Iterator[Task]:
    """Tasks, and all that they lead to by calls, the nearest first."""
    return _with_more(tasks, attrgetter("called"))


def _with_more(tasks: Iterable[Task], more_of: Callable[[Task], Iterable[Task]]) -> Iterator[Task]:
    found = list(dict.fromkeys(tasks))
    seen = set(found)
    for each in found:
        yield each
        more = [other for other in more_of(each) if other not in seen]
        seen.update(more)
        found += more
