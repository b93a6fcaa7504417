"""One writer of a user at a time, across processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from amp_migrate.engine.disk.folder import Folder

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int, *, wait: bool) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(descriptor: int, *, wait: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(folder: Folder, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder; wait while another process holds it, or raise `Busy`.

    The system lets go of the lock when the process ends, however it ends.
    """
    descriptor = folder.open_file("lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            _acquire(descriptor, wait=wait)
        except BlockingIOError:
            raise Busy from None
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)
