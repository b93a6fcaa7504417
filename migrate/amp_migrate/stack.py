"""Room on Python's stack, which grows by pieces that hold a few dozen calls.

Since 3.11, a call that has no more room in a piece asks the system for the next one, which goes back to it as soon as
the call returns. A function that is called over and over just there is several times as slow, and an interpreter of
programs, which recurses hundreds of calls deep, is there always: that took a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
# A piece is as many slots as the call that begins it needs, to the next power of two: as many again are behind it.
_SLOTS = 140_000


def with_room(run: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """Call a function that may call others a thousand deep."""
    return run(*args, **named)


with_room.__code__ = with_room.__code__.replace(co_stacksize=_SLOTS)
