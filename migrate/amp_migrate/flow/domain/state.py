"""What is known at one place of a function: variables, attributes, contexts, worlds, and casts that are kept."""

from __future__ import annotations

from typing import TypeAlias

from amp_migrate.flow.domain.atoms import UNBOUND, Atom, Value, join, one, widened
from amp_migrate.flow.domain.contexts import Context
from amp_migrate.flow.domain.kept_casts import KeptCast
from amp_migrate.flow.domain.machine import Worlds, joined

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
    cells = {cell: combine(value, b.cells[cell]) for cell, value in a.cells.items() if cell in b.cells}
    return State(names, cells, a.context.join(b.context), joined(a.worlds, b.worlds), a.casts | b.casts)


_UNBOUND = one(UNBOUND)
