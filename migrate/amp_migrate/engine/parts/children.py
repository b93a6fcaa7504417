"""What the processes have in common that one starts to do its work."""

from __future__ import annotations

import gc
import os
import signal
import sys
from multiprocessing import get_context, parent_process
from threading import Thread

# Forking spares each child the imports; elsewhere it is not to be had, or not to be trusted.
CONTEXT = get_context("fork") if sys.platform == "linux" else get_context("spawn")


def begin() -> None:
    """Begin as a child: its parent is asked for the end, ends its children, and may die without."""
    gc.freeze()  # what was there before the fork is nothing to look for garbage in
    for name in ("SIGINT", "SIGHUP"):  # the parent is asked, too, and ends its children
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """Without this, what a parent leaves that is killed waits for it for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
