"""Things that hang together, directly or through others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Components(Generic[T]):
    """Members that begin alone and are linked two by two."""

    def __init__(self, members: Iterable[T]) -> None:
        self._above = {member: member for member in members}

    def link(self, one: T, other: T) -> None:
        """Say that two hang together; a thing that is no member links nothing."""
        if one in self._above and other in self._above:
            self._above[self._top(other)] = self._top(one)

    def all(self) -> list[list[T]]:
        """The members that hang together, in the order in which they were given."""
        found: dict[T, list[T]] = {}
        for member in self._above:
            found.setdefault(self._top(member), []).append(member)
        return list(found.values())

    def _top(self, member: T) -> T:
        above = self._above
        while above[member] != member:
            above[member] = above[above[member]]
            member = above[member]
        return member
