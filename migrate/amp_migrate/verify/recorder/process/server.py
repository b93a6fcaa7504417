"""Starts runs by forking from a process that has imported torch: seconds less for each than a fresh interpreter.

Run as a program, with its parent's process id and the descriptors of sockets. It forks into a server for each socket,
so that torch and the recorder are imported once for all. A server reads one JSON object per line: `command`, `cwd`,
`environment`, `stdout`, `stderr`. It answers each with two lines: the run's process id, and its exit status, negative
for a signal. It computes nothing before it forks, so that no thread and no random number is shared. Nor does it turn to
a GPU, whose driver no fork could use afterwards; where it has, as by what torch imports, each order is answered by a 0.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg")  # of NVIDIA's driver, AMD's, and Windows' for Linux
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bootstrap", "sitecustomize.py")


def end_with_parent(parent: int) -> None:
    """Ask Linux to end this process when its parent ends, however that ends."""
    if sys.platform == "linux" and os.getppid() == parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _own(channels: list[int]) -> int:
    """Fork into a server for each channel; returns, in each, its own."""
    first, *others = channels
    server = os.getpid()
    for channel in others:
        if os.fork() == 0:
            end_with_parent(server)
            first = channel
            break
    for channel in channels:
        if channel != first:
            os.close(channel)
    return first


def _serve(channel: int) -> dict[str, Any]:
    """Fork for every order; returns, in each child, its own."""
    server = os.getpid()
    leaves_devices = _leaves_devices()
    orders = os.fdopen(channel, "rb")
    for line in orders:
        if not leaves_devices:
            _answer(channel, 0)
            continue
        order: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            end_with_parent(server)
            orders.close()
            return order
        with suppress(OSError):  # the child was faster
            os.setpgid(child, child)
        _answer(channel, child)
        _answer(channel, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.exit()


def _leaves_devices() -> bool:
    """Whether a fork of this process could use a GPU: nothing here has turned to one, be it to count them.

    The driver keeps its files open; what PyTorch has asked for itself, it lets a fork know.
    """
    opened = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    if any(os.readlink(each).startswith(_DEVICES) for each in opened if os.path.lexists(each)):
        return False
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is None:
        return True
    child = os.fork()
    if child == 0:
        os._exit(cuda._is_in_bad_fork())
    return os.waitpid(child, 0)[1] == 0


def _answer(channel: int, number: int) -> None:
    os.write(channel, b"%d\n" % number)


def _become(order: dict[str, Any]) -> Callable[[], object]:
    """Turn this process into one that a fresh interpreter would be; returns what it is to do."""
    with suppress(OSError):  # the parent was faster
        os.setpgid(0, 0)
    for path, flags, descriptor in (
        (os.devnull, os.O_RDONLY, 0),
        (order["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1),
        (order["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    script, *arguments = order["command"][1:]
    module = arguments.pop(0) if script == "-m" else ""
    sys.argv[:] = [script, *arguments]
    sys.orig_argv[:] = order["command"]
    sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(script))
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__)
    sys.modules["__main__"] = main
    runpy.run_path(_BOOTSTRAP)
    if module:
        run_module: Any = runpy
        return partial(run_module._run_module_as_main, module)  # what the interpreter calls
    main.__dict__.update(__file__=script)
    with open(script, "rb") as file:
        return partial(exec, compile(file.read(), script, "exec", dont_inherit=True), main.__dict__)


def _run(script: Callable[[], object]) -> NoReturn:
    """Run the script to its end, and end as an interpreter does, but for taking torch apart, which takes seconds."""
    status = 0
    try:
        script()
    except SystemExit as request:
        status = _status(request.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()  # files that the script left open are written
    gc.collect()
    with suppress(OSError, ValueError):  # replaced or closed by the script
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _preload() -> None:
    """Import what every run needs, and leave to no child of ours what is to be done at our own end.

    No garbage is looked for meanwhile: that takes a fifth of the time, and finds none.
    """
    gc.disable()
    for name in ("torch", "torch._dynamo"):  # making an optimizer imports the compiler
        with suppress(ImportError):
            importlib.import_module(name)
    with suppress(ImportError):
        bootstrap = runpy.run_path(_BOOTSTRAP, run_name="preload")
        bootstrap["load_recorder"]()
        for name in ("process.start", "attach", "standin.places"):
            importlib.import_module(f"{bootstrap['_RECORDER']}.{name}")
    finalizers: Any = weakref.finalize
    for each in finalizers._registry:  # torch takes its libraries of operations apart, one by one
        each.atexit = False
    gc.collect()
    gc.freeze()  # collections of the children need not look at torch
    gc.enable()


def _status(code: Any) -> int:
    """The exit status of `sys.exit(code)`."""
    if code is None or isinstance(code, int):
        return int(code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    _preload()
    _run(_become(_serve(_own(list(map(int, sys.argv[2:]))))))
