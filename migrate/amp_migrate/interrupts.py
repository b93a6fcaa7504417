"""Signals that ask the program to end: each is answered once, never in the middle of what has to be done whole.

The first one raises `Interrupted` where the program is, or at the next `check` where it must not be raised anywhere;
what comes after it changes nothing, because the program is on its way out already. `how_it_stands` tells what is to be
said then, and whoever changes files changes these words in the same held block.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ASKING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(KeyboardInterrupt):
    """Somebody asked the program to end."""


_asked: int | None = None
_holding = 0
_words = "no file was changed"


def listen() -> None:
    """Answer the signals that ask the program to end, as far as they are not ignored already (as by `nohup`)."""
    for number in _ASKING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _answer)


def how_it_stands() -> str:
    """What is so at this moment, in words that go on after "interrupted: "."""
    return _words


def number() -> int:
    """The number of the signal that asked for the end."""
    return signal.SIGINT if _asked is None else _asked


def stand(words: str) -> None:
    """From now on, `how_it_stands` is `words`."""
    global _words  # noqa: PLW0603  # of the process, as its signals are
    _words = words


@contextmanager
def held() -> Iterator[None]:
    """Let no signal come in between; one that came is raised at the next `check`, or when the block has ended well."""
    global _holding, _asked  # noqa: PLW0603
    before = _listen_meanwhile()
    _holding += 1
    try:
        if _holding == 1:
            check()
        yield
        if _holding == 1:
            check()
    finally:
        _holding -= 1
        for number, handler in before.items():
            _asked = None  # who did not listen before asks anew
            signal.signal(number, handler)


def check() -> None:
    """Raise `Interrupted` if somebody asked for the end."""
    if _asked is not None:
        raise Interrupted


def _listen_meanwhile() -> dict[int, Any]:
    """The handlers that were in the place of ours; none where we listen already, or cannot."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in _ASKING}
    listen()
    return {number: handler for number, handler in before.items() if signal.getsignal(number) is not handler}


def _answer(number: int, frame: FrameType | None) -> None:
    global _asked  # noqa: PLW0603
    if _asked is None:
        _asked = number
        if not _holding:
            raise Interrupted
