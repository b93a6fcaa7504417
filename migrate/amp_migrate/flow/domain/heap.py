"""What attributes and elements hold, for all places at once, and who has to look again when one of them grows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Obj,
    Tup,
    Value,
    at_several_times,
    bounded,
    taken_for_one,
    widened,
    with_few_leaves,
)
from amp_migrate.flow.domain.state import Cell

_NUMBERS = ("int", "float")
# What grows more often than this, and everybody looks again each time, may depend on anything that nobody knows: a
# recursion over the modules in a module adds one of these from round to round.
_MOST_GROWTHS = 8
# What is taken for one unknown thing, as it is of many, and then holds something that is known again, and so on: this
# often, and then it is that thing.
_MOST_LOSSES = 2

T = TypeVar("T")


class _Answer:
    """What a question has come to.

    Attributes:
        own: the cells that were read for it.
        listed: the objects of which all names were looked at for it.
        inner: the answers that it follows from as well.
        cells: all cells that it follows from.
        askers: the questions whose answers follow from this one.
        readers: who has read what it follows from, by asking.
        holds_everywhere: whether nothing was read that is known better where it was asked, or has grown since.
    """

    __slots__ = ("askers", "cells", "holds_everywhere", "inner", "listed", "own", "question", "readers", "value")

    def __init__(self, question: Hashable, reader: Any) -> None:
        self.question = question
        self.value: Any = None
        self.own: dict[Cell, None] = {}
        self.listed: dict[Atom, None] = {}
        self.inner: dict[_Answer, None] = {}
        self.cells = self.own
        self.askers: dict[Hashable, None] = {}
        self.readers = {reader}
        self.holds_everywhere = True


class Heap:
    """The join of everything that was ever stored in each cell.

    Args:
        outdated: called with everybody who has read a cell that has grown since.
    """

    def __init__(self, outdated: Callable[[Any], None]) -> None:
        self._outdated = outdated
        self._cells: dict[Cell, Value] = {}
        self._growths: Counter[Cell] = Counter()
        self._losses: Counter[Cell] = Counter()
        self._names: dict[Atom, dict[str, None]] = defaultdict(dict)
        self._readers: dict[Cell, dict[Any, None]] = defaultdict(dict)
        self._listers: dict[Atom, dict[Any, None]] = defaultdict(dict)
        self._answers: dict[Hashable, _Answer] = {}
        self._asking: list[tuple[Any, _Answer]] = []
        self._asked_of: dict[Cell | Atom, dict[Hashable, None]] = defaultdict(dict)
        self._changes = 0

    def read(self, owner: Atom, name: str, reader: Any) -> Value:
        """What a cell may hold; nothing at all where nobody has stored anything."""
        cell = (owner, name)
        self._readers[cell][reader] = None
        if self._asking and self._asking[-1][0] is reader:
            self._asking[-1][1].own[cell] = None
        return self._cells.get(cell, NEVER)

    def has(self, owner: Atom, name: str) -> bool:
        """Whether something has been stored so far; to be asked about what is stored once."""
        return (owner, name) in self._cells

    def names(self, owner: Atom, reader: Any) -> list[str]:
        """The names under which something is stored in an object."""
        self._listers[owner][reader] = None
        if self._asking and self._asking[-1][0] is reader:
            self._asking[-1][1].listed[owner] = None
        return list(self._names.get(owner, ()))

    def cells(self) -> Iterator[tuple[Atom, Value]]:
        """What each object holds, once nothing more is stored."""
        return ((owner, value) for (owner, _), value in self._cells.items())

    def objects_in(self, value: Value) -> frozenset[Obj]:
        """The objects in a value, and in its tuples, with all that they hold, once nothing more is stored."""
        found: set[Obj] = set()
        stack = [*value]
        while stack:
            each = stack.pop()
            if isinstance(each, Tup):
                stack += (part for item in (*each.items, each.rest or NEVER) for part in item)
            elif isinstance(each, Obj) and each not in found:
                found.add(each)
                stack += (part for name in self.names(each, None) for part in self.read(each, name, None))
        return frozenset(found)

    def write(self, owner: Atom, name: str, value: Value) -> bool:
        """Store something more in a cell; whether it holds more now."""
        cell = (owner, name)
        old = self._cells.get(cell)
        if old is None:
            self._cells[cell] = bounded(value)
            self._names[owner][name] = None
            self._forget_answers(owner)
            for each in list(self._listers.get(owner, ())):
                self._outdated(each)
        else:
            losses = self._losses.get(cell, 0)
            if value <= old and losses <= _MOST_LOSSES:  # most that is stored is stored once more
                return False
            new = widened(old, value, _NUMBERS)
            if self._growths.get(cell, 0) >= _MOST_GROWTHS and new != old:
                new = with_few_leaves(new)
            if len(new) < len(old) and new == taken_for_one(new):
                losses = self._losses[cell] = losses + 1
            if losses > _MOST_LOSSES:
                new = taken_for_one(new)
            if new == old:
                return False
            new = at_several_times(new, old, value)
            self._growths[cell] += 1
            self._cells[cell] = new
        self._forget_answers(cell)
        for each in list(self._readers.get(cell, ())):
            self._outdated(each)
        return True

    def signal(self, owner: Atom, name: str) -> None:
        """Let everybody look again who has read a cell that stands for something kept elsewhere."""
        self._forget_answers((owner, name))
        for each in list(self._readers.get((owner, name), ())):
            self._outdated(each)

    def kept(self, question: Hashable, reader: Any, known: Mapping[Cell, Value], ask: Callable[[], T]) -> T:
        """What a question about cells comes to: it is asked again when one of them has grown.

        Args:
            reader: who asks, and looks again then.
            known: cells whose value is known better where it is asked; what follows from these is not kept.
        """
        found = self._answers.get(question)
        if found is None or not found.cells.keys().isdisjoint(known.keys()):
            return self._ask(question, reader, ask)
        self._note_reader(found, reader)
        self._note_asker(reader, found)
        return found.value  # type: ignore[no-any-return]

    def holds_only_here(self) -> None:
        """Note that what is read now is known better where it is read than the heap knows it."""
        if self._asking:
            self._asking[-1][1].holds_everywhere = False

    def _ask(self, question: Hashable, reader: Any, ask: Callable[[], T]) -> T:
        answer, changes = _Answer(question, reader), self._changes
        self._asking.append((reader, answer))
        try:
            value = answer.value = ask()
        finally:
            self._asking.pop()
        if answer.inner:
            answer.cells = dict(answer.own)
            for each in answer.inner:
                answer.cells.update(each.cells)
        # One that is kept already has its own askers: it is not replaced.
        answer.holds_everywhere &= changes == self._changes and question not in self._answers
        self._note_asker(reader, answer)
        if answer.holds_everywhere:
            self._answers[question] = answer
            for cell in answer.own:
                self._asked_of[cell][question] = None
            for owner in answer.listed:
                self._asked_of[owner][question] = None
        return value

    def _note_reader(self, answer: _Answer, reader: Any) -> None:
        if reader not in answer.readers:
            answer.readers.add(reader)
            for cell in answer.own:
                self._readers[cell][reader] = None
            for owner in answer.listed:
                self._listers[owner][reader] = None
            for each in answer.inner:
                self._note_reader(each, reader)

    def _note_asker(self, reader: Any, answer: _Answer) -> None:
        """Note that the answer that is looked for, if any is, follows from another one."""
        if self._asking and self._asking[-1][0] is reader:
            outer = self._asking[-1][1]
            outer.inner[answer] = None
            outer.holds_everywhere &= answer.holds_everywhere
            answer.askers[outer.question] = None

    def _forget_answers(self, changed: Cell | Atom) -> None:
        self._changes += 1
        for question in self._asked_of.pop(changed, ()):
            self._forget(question)

    def _forget(self, question: Hashable) -> None:
        answer = self._answers.pop(question, None)
        for each in () if answer is None else answer.askers:
            self._forget(each)
