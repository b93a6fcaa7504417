"""The processes that one starts to do its work: its children."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from amp_migrate.engine.parts import work
from amp_migrate.stack import with_room

# Forking spares each child the imports; elsewhere it is not to be had, or not to be trusted.
CONTEXT = get_context("fork") if sys.platform == "linux" else get_context("spawn")


class Child:
    """A process that answers through a channel, with what it has done for the answer.

    Args:
        run: what it does, called with its end of the channel and `args`.
    """

    def __init__(self, run: Callable[..., None], *args: Any) -> None:
        self.channel, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_begin, args=(run, theirs, *args), daemon=True)
        self._process.start()
        theirs.close()  # so that the channel ends with the process

    def answer(self) -> Any:
        """What it answers; None where it has died."""
        try:
            answer, done = self.channel.recv()
        except (EOFError, OSError):
            return None
        work.add(done)
        return answer

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()  # it has nothing to lose, and may not hear of anything less
        self._process.join()
        self.channel.close()


def _begin(run: Callable[..., None], *args: Any) -> None:
    gc.freeze()  # what was there before the fork is nothing to look for garbage in
    for name in ("SIGINT", "SIGHUP"):  # the parent is asked, too, and ends its children
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_the_parent, daemon=True).start()
    with_room(run, *args)


def _end_with_the_parent() -> None:
    """Without this, what a parent leaves that is killed waits for it for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
