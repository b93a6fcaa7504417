"""Calls are as fast deep in others as they are outside."""

from __future__ import annotations

import pytest
from amp_migrate.stack import with_room

resource = pytest.importorskip("resource")
CALLS = 100


def called_at(depth: int) -> int:
    """How many pieces of memory Python asks for while it calls a function so deep in others, over and over."""
    if depth:
        return called_at(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        nothing()
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def nothing() -> None:
    pass


def at_the_worst_depth() -> int:
    return max(map(called_at, range(800)))


def test_with_room_no_depth_has_calls_ask_for_memory() -> None:
    assert with_room(at_the_worst_depth) < CALLS // 10


def test_what_is_called_with_room_is_given_its_arguments() -> None:
    assert with_room(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}
