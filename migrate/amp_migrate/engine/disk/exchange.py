"""Two files of one folder take each other's names, in one step where the system can do that.

A rename alone would throw away what has the name at that moment, which need not be what was there when one looked. What
is exchanged can be looked at afterwards, and goes back without a byte of new space.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from amp_migrate.engine.disk.folder import Folder

_RENAME_EXCHANGE = 2  # linux/fs.h; RENAME_SWAP of macOS has the same number
# The file system cannot do it: NFS and the like; or the kernel is too old.
_UNABLE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchange(folder: Folder, one: str, other: str) -> None:
    """Let the files `one` and `other` take each other's names; neither name is ever without a file.

    Raises:
        OSError: they keep their names.
    """
    call = _system_call()
    if call is not None and folder.descriptor >= 0:
        at = folder.descriptor
        number = call(at, os.fsencode(one), at, os.fsencode(other), _RENAME_EXCHANGE)
        if number == 0:
            return
        if number not in _UNABLE:
            raise OSError(number, os.strerror(number), other)
    _in_steps(folder, one, other)


def aside(name: str) -> str:
    """The name that a third file has for a moment where the system cannot exchange two."""
    return f"{name}.old"


def _in_steps(folder: Folder, one: str, other: str) -> None:
    third = aside(one)
    folder.remove(third)
    try:
        folder.link(other, third)
    except OSError:  # a file system without hard links
        folder.create(third, folder.read(other))
        folder.keep_metadata(other, third)
    try:
        folder.rename(one, other)
    except BaseException:
        with suppress(OSError):
            folder.remove(third)
        raise
    folder.rename(third, one)


@cache
def _system_call() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The call of the system, which gives the number of what went wrong, or 0; None where it has none."""
    import ctypes  # most runs write nothing, and take a hundredth of their time to load it

    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    function = None if name is None else getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return lambda *given: 0 if function(*given) == 0 else ctypes.get_errno()
