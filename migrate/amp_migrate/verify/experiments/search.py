"""Which of many items are needed, by trying: grow from the most suspected, then leave out what can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def largest(fits: Callable[[int], bool], start: int) -> int:
    """The largest number that fits, to within a sixteenth, found by doubling `start` and then halving; 0 for none."""
    if not fits(start):
        return 0
    low, high = start, 2 * start
    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def grow(ranked: Sequence[Item], holds: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...]:
    """The first 1, 2, 4, ... of the items, whichever holds first; nothing where not even all of them do."""
    size = 1
    while size < 2 * len(ranked):
        if holds(first := tuple(ranked[:size])):
            return first
        size *= 2
    return ()


def shrink(items: Sequence[Item], holds: Callable[[tuple[Item, ...]], bool]) -> tuple[Item, ...]:
    """Items that hold and none of which can be left out alone, out of `items`, which hold; in the same order.

    Whole runs of items are left out at first, half of them, a quarter, and so on, from the end.
    """
    kept = tuple(items)
    size = (len(kept) + 1) // 2
    while len(kept) > 1:
        starts = range((len(kept) - 1) // size * size, -1, -size)
        fewer = (kept[:start] + kept[start + size :] for start in starts)
        smaller = next((rest for rest in fewer if rest and holds(rest)), None)
        if smaller is not None:
            kept = smaller
            size = min(size, (len(kept) + 1) // 2)
        elif size > 1:
            size = (size + 1) // 2
        else:
            break
    return kept
