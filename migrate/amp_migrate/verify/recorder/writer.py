"""The event file: one JSON object per line, appended, so that a crash loses little."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

_FLUSH_EVERY = 64


class Writer:
    """Collects events and writes them in batches.

    A value may be a tensor of one element: it is read when its batch is written, so that recording a loss costs no
    synchronisation with the GPU. A process forked from the script's writes nothing.
    """

    def __init__(self, path: str) -> None:
        """Claim `path` for this process; FileExistsError if another process records this rank already."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8")
        self._owner = os.getpid()
        self._pending: list[dict[str, Any]] = []
        self._lock = threading.RLock()

    def put(self, kind: str, **fields: Any) -> None:
        """Add an event."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._pending.append({"kind": kind, **fields})
            if len(self._pending) >= _FLUSH_EVERY:
                self.flush()

    def flush(self) -> None:
        """Write what has been collected."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            pending, self._pending = self._pending, []
            for event in pending:
                self._file.write(json.dumps({key: _plain(value) for key, value in event.items()}) + "\n")
            self._file.flush()


def _plain(value: Any) -> Any:
    """A tensor as a float, in whatever containers it stands."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return float(value) if hasattr(value, "detach") else value
