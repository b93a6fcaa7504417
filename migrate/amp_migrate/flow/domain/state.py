"""What is known at one place of a function: variables, attributes, contexts, worlds, and casts that are kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from amp_migrate.flow.domain.atoms import UNBOUND, Atom, Value, join, one, widened
from amp_migrate.flow.domain.contexts import Context
from amp_migrate.flow.domain.kept_casts import KeptCast
from amp_migrate.flow.domain.machine import Worlds, forgetting, joined

Cell: TypeAlias = "tuple[Atom, str]"


class State:
    """Changed in place; a branch works on a copy.

    Attributes:
        names: the local variables.
        cells: attributes and elements whose value here is known better than the heap knows it.
        context: what is switched on.
        worlds: the ways that lead here.
        casts: those of leaves that autocast may have kept without a gradient.
    """

    __slots__ = ("casts", "cells", "context", "names", "worlds")

    def __init__(
        self,
        names: dict[str, Value],
        cells: dict[Cell, Value],
        context: Context,
        worlds: Worlds,
        casts: frozenset[KeptCast] = frozenset(),
    ) -> None:
        self.names, self.cells, self.context, self.worlds, self.casts = names, cells, context, worlds, casts

    def copy(self) -> State:
        """A state that changes by itself."""
        return State(dict(self.names), dict(self.cells), self.context, self.worlds, self.casts)

    def forget(self, name: str) -> None:
        """Know nothing more of tests of a name, or of an attribute of that name, which gets a new value."""
        self.worlds = forgetting(self.worlds, name)
        if self.casts and any(each.facts or each.behind for each in self.casts):
            self.casts = frozenset(each.forgetting(name) for each in self.casts)

    def forget_cells(self, cells: Iterable[Cell]) -> None:
        """The same of attributes that may have new values: of many, tests are seldom of any."""
        told = {name for facts in {each.facts for each in self.worlds} for fact in facts for name in fact[2]}
        is_told_of_casts = any(each.facts or each.behind for each in self.casts)
        if told or is_told_of_casts:
            for name in sorted({name for _, name in cells if is_told_of_casts or name in told}):
                self.forget(name)

    def same(self, other: State) -> bool:
        """Whether two states know the same."""
        return (
            self.worlds == other.worlds
            and self.context is other.context
            and self.casts == other.casts
            and self.names == other.names
            and self.cells == other.cells
        )


def meet(a: State | None, b: State | None, *, loop: bool = False) -> State | None:
    """The state where two ways meet; None where neither is reached.

    Args:
        loop: whether the second came round a loop, so that what grows must be any number at last.
    """
    if a is None or a is b:
        return b
    if b is None:
        return a
    combine = widened if loop else join
    names = dict(a.names)
    for name, value in b.names.items():
        own = names.get(name)
        if own is not value:
            names[name] = join(value, _UNBOUND) if own is None else combine(own, value)
    for name in [each for each in names if each not in b.names]:
        names[name] = join(names[name], _UNBOUND)
    if a.cells == b.cells:  # compared by identity, and without a hash of any cell
        cells = dict(a.cells)
    else:
        cells = {cell: combine(value, b.cells[cell]) for cell, value in a.cells.items() if cell in b.cells}
    return State(names, cells, a.context.join(b.context), joined(a.worlds, b.worlds), a.casts | b.casts)


class Gathered(State):
    """The state where the ways from many places meet, one after the other, as at a handler for what each may raise.

    From one place to the next little changes: what is there as it was at the last one has met all else before.
    """

    __slots__ = ("_last_cells", "_last_names")

    def __init__(self, first: State, worlds: Worlds) -> None:
        super().__init__(dict(first.names), dict(first.cells), first.context, worlds, first.casts)
        self._last_names, self._last_cells = dict(first.names), dict(first.cells)

    def add(self, state: State, worlds: Worlds) -> None:
        """Have a way meet the others, from a place that is reached in some worlds."""
        if state.names != self._last_names:
            self._add_names(state.names)
        if state.cells != self._last_cells:
            self._add_cells(state.cells)
        self.context = self.context.join(state.context)
        self.worlds = joined(self.worlds, worlds)
        self.casts |= state.casts

    def _add_names(self, names: dict[str, Value]) -> None:
        known, last = self.names, self._last_names
        new = {name: value for name, value in names.items() if last.get(name) is not value}
        for name, value in new.items():
            own = known.get(name)
            known[name] = join(value, _UNBOUND) if own is None else join(own, value)
        if len(known) > len(names):
            for name in [each for each in known if each not in names]:
                known[name] = join(known[name], _UNBOUND)
        last.update(new)

    def _add_cells(self, cells: dict[Cell, Value]) -> None:
        known, last = self.cells, self._last_cells
        for cell in [each for each in known if each not in cells]:
            del known[cell]
        for cell, value in known.items():
            other = cells[cell]
            if last.get(cell) is not other:
                known[cell] = join(value, other)
        self._last_cells = dict(cells)


_UNBOUND = one(UNBOUND)
