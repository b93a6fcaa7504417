"""`python -m apex.parallel.multiproc`: one process of a script for each GPU.

    python -m amp_shim.parallel.multiproc train.py --lr 0.1

Every process gets `--world-size N` and `--rank i` behind the arguments of the script; with `--world-size` among them,
that many processes start. The output of all but the first goes to `GPU_i.log` in the current folder. Where one fails,
the others are ended, and its exit code is that of the launcher. New scripts are better off with `torchrun`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

import torch

_POLL = 0.1  # seconds between two looks at the processes
_GRACE = 5.0  # seconds in which a process that is asked to end may write what it wants to keep
_WORLD_SIZE, _RANK = "--world-size", "--rank"


def launch(arguments: Sequence[str]) -> int:
    """Run a script in so many processes, and wait for them.

    Args:
        arguments: the script and its arguments.

    Returns the exit code of the first process that failed, or 0. Raises SystemExit for bad arguments.
    """
    given = list(arguments)
    if not given:
        sys.exit("multiproc: no script was given; use: python -m amp_shim.parallel.multiproc SCRIPT [ARGUMENT]...")
    size = _world_size(given)
    for option in (_WORLD_SIZE, _RANK):
        if option not in given:
            given += [option, str(size)]
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, processes)
        for rank in range(size):
            output = None if rank == 0 else stack.enter_context(open(f"GPU_{rank}.log", "w"))
            given[given.index(_RANK) + 1 : given.index(_RANK) + 2] = [str(rank)]
            processes.append(subprocess.Popen([sys.executable, *given], stdout=output))
        return _wait(processes)


def _world_size(given: Sequence[str]) -> int:
    if _WORLD_SIZE not in given:
        size = torch.cuda.device_count()
        if size == 0:
            sys.exit(f"multiproc: no GPU was found; give the number of processes with {_WORLD_SIZE}")
        return size
    value = next(iter(given[given.index(_WORLD_SIZE) + 1 :]), "")
    if not value.isdecimal() or int(value) == 0:
        sys.exit(f"multiproc: {_WORLD_SIZE} needs a number of processes, found {value!r}")
    return int(value)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    while True:
        codes = [process.poll() for process in processes]
        failed = next((code for code in codes if code), 0)
        if failed or None not in codes:
            return failed
        time.sleep(_POLL)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()  # as one that waits for the process that failed
            process.wait()


if __name__ == "__main__":
    code = launch(sys.argv[1:])
    sys.exit(128 - code if code < 0 else code)  # one that a signal ended has its number below zero
