"""What the recorder's own start needs of the environment: taken out of what the script sees, and given to its children.

A script that asks whether it is watched would otherwise be another program under the harness than elsewhere.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..spec import ENVIRONMENT_VARIABLE
from .imports import after_import

_PATH = "PYTHONPATH"
_ENV_START, _ENV_END = 47, 48  # of the fields of /proc/self/stat behind the name; proc(5) counts from 1, and two more


def take(bootstrap: str) -> str:
    """Take the orders' path out of `os.environ`, and the folder `bootstrap` out of its search path; returns the former.

    The process itself keeps both, so that a child that inherits its environment has them. One that is given an
    environment, as launchers do, gets them added to it.
    """
    orders = os.environ[ENVIRONMENT_VARIABLE]
    environment: Any = os.environ
    # Below `os.environ` stands what it was made of; to delete from it would tell the process, too.
    held, encoded = environment._data, environment.encodekey
    del held[encoded(ENVIRONMENT_VARIABLE)]
    entries = [each for each in os.environ.get(_PATH, "").split(os.pathsep) if os.path.abspath(each) != bootstrap]
    if any(entries):
        held[encoded(_PATH)] = environment.encodevalue(os.pathsep.join(entries))
    else:
        held.pop(encoded(_PATH), None)
    with suppress(OSError):
        _rewrite_block(held)
    _give_to_children({ENVIRONMENT_VARIABLE: orders, _PATH: bootstrap})
    return orders


def _rewrite_block(seen: Mapping[bytes, bytes]) -> None:
    """Let /proc/self/environ, which is how the process began, show of its variables those that are to be seen."""
    if sys.platform != "linux":
        return
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    names = [each.partition(b"=")[0] for each in ctypes.string_at(start, end - start).split(b"\0")]
    if ENVIRONMENT_VARIABLE.encode() not in names:
        return  # a fork of what began without
    variables = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while variables[index]:  # what the process goes on with moves away first
        _moved.append(ctypes.create_string_buffer(ctypes.string_at(variables[index])))
        variables[index] = ctypes.addressof(_moved[-1])
        index += 1
    shown = b"".join(name + b"=" + seen[name] + b"\0" for name in names if name in seen)
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


_moved: list[Any] = []  # for as long as the process lives


def _give_to_children(own: Mapping[str, str]) -> None:
    after_import("subprocess", lambda module: _wrap(module.__dict__["Popen"], "__init__", 11, own))
    for name in ("execve", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            _wrap(os, name, 2, own)


def _wrap(holder: Any, name: str, position: int, own: Mapping[str, str]) -> None:
    """Let a function that starts a process add our own to an environment that it is given."""
    original = getattr(holder, name)

    @functools.wraps(original)
    def started(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], _with(own, args[position]), *args[position + 1 :])
        elif "env" in kwargs:
            kwargs["env"] = _with(own, kwargs["env"])
        return original(*args, **kwargs)

    setattr(holder, name, started)


def _with(own: Mapping[str, str], given: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
    known = None if given is None else {os.fsdecode(key): os.fsdecode(value) for key, value in given.items()}
    if known is None or ENVIRONMENT_VARIABLE in known:
        return known
    path = os.pathsep.join(filter(None, [own[_PATH], known.get(_PATH)]))
    return {**known, **own, _PATH: path}
