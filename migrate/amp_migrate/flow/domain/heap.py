"""What attributes and elements hold, for all places at once, and who has to look again when one of them grows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Value,
    at_several_times,
    bounded,
    widened,
    with_few_leaves,
)
from amp_migrate.flow.domain.state import Cell

_NUMBERS = ("int", "float")
# What grows more often than this, and everybody looks again each time, may depend on anything that nobody knows: a
# recursion over the modules in a module adds one of these from round to round.
_MOST_GROWTHS = 8


class Heap:
    """The join of everything that was ever stored in each cell.

    Args:
        outdated: called with everybody who has read a cell that has grown since.
    """

    def __init__(self, outdated: Callable[[Any], None]) -> None:
        self._outdated = outdated
        self._cells: dict[Cell, Value] = {}
        self._growths: Counter[Cell] = Counter()
        self._names: dict[Atom, dict[str, None]] = defaultdict(dict)
        self._readers: dict[Cell, dict[Any, None]] = defaultdict(dict)
        self._listers: dict[Atom, dict[Any, None]] = defaultdict(dict)

    def read(self, owner: Atom, name: str, reader: Any) -> Value:
        """What a cell may hold; nothing at all where nobody has stored anything."""
        cell = (owner, name)
        self._readers[cell][reader] = None
        return self._cells.get(cell, NEVER)

    def has(self, owner: Atom, name: str) -> bool:
        """Whether something has been stored so far; to be asked about what is stored once."""
        return (owner, name) in self._cells

    def names(self, owner: Atom, reader: Any) -> list[str]:
        """The names under which something is stored in an object."""
        self._listers[owner][reader] = None
        return list(self._names.get(owner, ()))

    def cells(self) -> Iterator[tuple[Atom, Value]]:
        """What each object holds, once nothing more is stored."""
        return ((owner, value) for (owner, _), value in self._cells.items())

    def write(self, owner: Atom, name: str, value: Value) -> bool:
        """Store something more in a cell; whether it holds more now."""
        cell = (owner, name)
        old = self._cells.get(cell)
        if old is None:
            self._cells[cell] = bounded(value)
            self._names[owner][name] = None
            for each in list(self._listers.get(owner, ())):
                self._outdated(each)
        else:
            new = widened(old, value, _NUMBERS)
            if self._growths[cell] >= _MOST_GROWTHS and new != old:
                new = with_few_leaves(new)
            if new == old:
                return False
            new = at_several_times(new, old, value)
            self._growths[cell] += 1
            self._cells[cell] = new
        for each in list(self._readers.get(cell, ())):
            self._outdated(each)
        return True

    def signal(self, owner: Atom, name: str) -> None:
        """Let everybody look again who has read a cell that stands for something kept elsewhere."""
        for each in list(self._readers.get((owner, name), ())):
            self._outdated(each)
