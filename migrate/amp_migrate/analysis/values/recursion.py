"""Questions about functions that come back to themselves where functions call each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

import libcst as cst

Runs: TypeAlias = "cst.FunctionDef | cst.Lambda"


class Recursion:
    """What a question has come to of each function: yes where a call of it says so, by whatever functions.

    One that is still being asked counts as no meanwhile: it is decided by its other calls. What is no for that reason
    alone is known once all of these are.
    """

    def __init__(self) -> None:
        self._known: dict[Runs, bool] = {}
        # Those that are not known yet, as they were asked, each with the place of the first that its no hangs on.
        self._open: dict[Runs, int] = {}
        self._first = 0

    def ask(self, function: Runs, find: Callable[[], bool]) -> bool:
        """What is known of a function, or is found of it; `find` asks others."""
        if function in self._known:
            return self._known[function]
        if function in self._open:
            self._first = min(self._first, self._open[function])
            return False
        place, before = len(self._open), self._first
        self._open[function] = self._first = place
        found = find()
        inside = len(self._open) - place
        if not found and self._first < place:
            self._open.update(dict.fromkeys([*islice(reversed(self._open), inside)], self._first))
            self._first = min(self._first, before)
            return False
        for each in [*islice(reversed(self._open), inside)]:
            del self._open[each]
            if not found:
                self._known[each] = False
        self._known[function] = found
        self._first = before
        return found
