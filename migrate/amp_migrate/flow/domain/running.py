"""Objects that are called inside themselves: `net = Sequential(layer, net)`, in a loop, seems to hold itself.

Inside itself an object gives what it is known to give, and is given what it gets there, until nothing changes. Of
several that hold each other the first goes round, and each of the others runs once in each of its rounds: by every way
from one to the next they would be run as often as they can be put into orders.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from amp_migrate.flow.domain.atoms import NEVER, Atom, Value, join
from amp_migrate.flow.domain.contexts import Context

# How often an object is run that is called inside itself, before nothing is known of what it gives.
_MOST_ROUNDS = 6
_NONE = sys.maxsize


class _Call(NamedTuple):
    """A call of an object, as far as it is known.

    Attributes:
        given: the arguments.
        found: what it gives.
        depth: of those that run, the number of the object itself; once it has run, of the outermost that it has called.
    """

    given: Any
    found: Value
    depth: int


class Running:
    """The objects that a function is calling, one inside another.

    Attributes:
        going_round: how many of them are known to be called inside themselves.
    """

    def __init__(self) -> None:
        self.going_round = 0
        self._calls: dict[Atom, _Call] = {}
        # Those that have run in this round of one that they call in turn, and in the rounds before.
        self._done: dict[tuple[Atom, Context], _Call] = {}
        self._before: dict[tuple[Atom, Context], _Call] = {}
        self._outermost = _NONE  # of the objects that were met again, inside what runs
        self._is_new = False  # whether one of those that have run knows more than in the round before

    def known(self, owner: Atom, context: Context, given: Any) -> Value | None:
        """What an object gives that is called inside itself, or has run with such arguments in this round."""
        call = self._calls.get(owner)
        if call is not None:
            self._calls[owner] = call._replace(given=call.given.joined(given))
        else:
            call = self._done.get((owner, context))
            if call is None or call.given.joined(given) != call.given:
                return None
        self._outermost = min(self._outermost, call.depth)
        return call.found

    def has(self, owner: Atom) -> bool:
        """Whether an object runs, so that another call of it is inside itself."""
        return owner in self._calls

    def run(
        self, owner: Atom, context: Context, given: Any, run: Callable[[Any], Value], *, goes_round: bool = False
    ) -> Value | None:
        """What an object gives that runs, in as many rounds as it takes; None where that comes to no end.

        Args:
            goes_round: whether it is known to be called inside itself: then all in it runs once in a round.
        """
        key, depth = (owner, context), len(self._calls)
        around, is_new_beside = self._outermost, self._is_new
        before = self._done.get(key) or self._before.get(key)
        found = NEVER if before is None else before.found
        given = given if before is None else before.given.joined(given)
        for number in range(_MOST_ROUNDS):
            self._outermost, self._is_new = _NONE, False
            self._calls[owner] = _Call(given, found, depth)
            self.going_round += goes_round or number > 0
            value = run(given)
            self.going_round -= goes_round or number > 0
            inside, known = self._calls.pop(owner).given, found
            found, met = join(found, value), self._outermost
            is_settled = inside == given and found == known and not self._is_new
            self._outermost = min(around, met)
            self._is_new |= is_new_beside or (met < depth and (before is None or (inside, found) != before[:2]))
            if met == depth:
                self._begin_again(depth, is_last=is_settled)
            if met < depth or (self.going_round and (met != depth or is_settled)):
                self._done[key] = _Call(inside, found, met if met < depth else _NONE)
            if met != depth or is_settled:
                return found
            given = inside
        self._begin_again(depth, is_last=True)
        return None

    def _begin_again(self, depth: int, *, is_last: bool) -> None:
        """Forget that what calls an object in turn has run, and what that gave, too, once the object is done."""
        for key in [each for each, call in self._done.items() if call.depth >= depth]:
            self._before[key] = self._done.pop(key)
        for key in [each for each, call in self._before.items() if call.depth >= depth and is_last]:
            del self._before[key]
