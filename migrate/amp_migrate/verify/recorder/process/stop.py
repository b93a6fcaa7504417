"""How a run ends before the script does."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn


class StopRun(BaseException):
    """Raised in the script once it has made the steps that were asked for. No `except Exception` catches it."""


def leave() -> NoReturn:
    """End the process of a script that caught `StopRun` with a bare `except:` and goes on; exit handlers are called."""
    handlers: Any = atexit
    handlers._run_exitfuncs()
    with suppress(OSError, ValueError):  # replaced or closed by the script
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def be_quiet_in_threads() -> None:
    """Let a thread in which the script trains end by `StopRun` without a traceback."""
    show = threading.excepthook

    def hook(args: Any) -> None:
        if not issubclass(args.exc_type, StopRun):
            show(args)

    threading.excepthook = hook
