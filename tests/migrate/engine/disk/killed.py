"""Runs of `amp-migrate` with the toy planner, each in a fork, that are killed, interrupted or disturbed at any step.

A program of its own, which has loaded little more than the command needs: to fork the tests' own process, with all that
they have loaded, takes several times as long as the command does.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from amp_migrate.__main__ import main
from amp_migrate.engine import migrate
from amp_migrate.engine.disk import write
from amp_migrate.engine.disk.exchange import exchange
from amp_migrate.engine.disk.folder import Folder

TOYS = Path(__file__).parents[2] / "conftest.py"


def in_place(path: Path, text: str) -> None:
    with path.open("r+b") as file:
        file.write(text.encode())
        file.truncate()


def by_rename(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(text.encode())
    os.replace(new, path)


EDITS = {"in_place": in_place, "by_rename": by_rename}


class Order(NamedTuple):
    """A command, and what happens to it, by steps.

    A step is each time that the command turns to the file system, and before and after an exchange of names.
    """

    args: Sequence[str]
    said: str  # the file that gets what it says
    signals: Sequence[tuple[int, int]] = ()  # steps, and the signal that it gets there
    edits: Sequence[tuple[int, str, str, str]] = ()  # steps, and how somebody else edits there which file to what


def run(order: Order) -> NoReturn:
    """Carry out an order in the process that calls this, and end the process."""
    said = os.open(order.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    code = 0
    step = -1

    def count(event: str, _: object) -> None:
        nonlocal step
        if (event == "open" or event.startswith("os.")) and event != "os.kill":
            step += 1
            now = step  # what an edit does counts, too
            for when, how, path, text in order.edits:
                if when == now:
                    EDITS[how](Path(path), text)
            for when, number in order.signals:
                if when == now:
                    os.kill(os.getpid(), number)

    def exchanged(folder: Folder, one: str, other: str) -> None:
        sys.audit("os.exchange")
        exchange(folder, one, other)
        sys.audit("os.exchange")

    setattr(write, "exchange", exchanged)  # noqa: B010
    sys.argv = ["amp-migrate", *order.args]
    sys.addaudithook(count)
    try:
        main()
    except SystemExit as done:
        code = int(done.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        print("steps", step, file=sys.stderr, flush=True)
        os._exit(code)


def serve() -> None:
    """Carry out each order that is read, and write with which code it ended: negative for the signal that killed it."""
    setattr(migrate, "plan", runpy.run_path(str(TOYS))["toy_plan"])  # noqa: B010
    setattr(migrate, "refuted", lambda *_: {})  # noqa: B010  # its results are other programs
    # What a killed process wrote, the system still has: waiting for the disk matters only when the power fails.
    setattr(os, "fsync", lambda _: None)  # noqa: B010
    # The first run loads what later runs find loaded, and says how it takes signals: here, so that no fork has to.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for word in (".", "--undo"):
            sys.argv = ["amp-migrate", word]
            with suppress(SystemExit):
                main()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    print("ready", flush=True)
    for line in sys.stdin:
        gc.freeze()  # a child whose collector looks at what was there before copies every page
        child = os.fork()
        if not child:
            run(Order(*json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
