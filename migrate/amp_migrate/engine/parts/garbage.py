"""When Python looks for cyclic garbage: not while trees are built, which it would walk again and again in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collected_later() -> Iterator[None]:
    """Leave what earlier work left behind to one collection now, and what this work leaves to the next one."""
    if not gc.isenabled():
        yield
        return
    gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect() -> None:
    """Look at what a part of the work has left behind, all of which is young."""
    gc.collect(1)
