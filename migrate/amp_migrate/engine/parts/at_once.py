"""Questions that have nothing to do with each other, each answered by a process of its own.

A forked process knows all that its parent does, and need not be told what it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing import current_process
from multiprocessing.connection import Connection, wait
from typing import Any

from amp_migrate import interrupts
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.children import CONTEXT, Child


def at_once(questions: Sequence[Callable[[], Any]], workers: int) -> list[Any]:
    """What each question comes to; None for one that fails, or whose process dies: who needs it asks by himself.

    Args:
        workers: how many processes there may be. Of one nothing is gained, and nothing asked.
    """
    answers: list[Any] = [None] * len(questions)
    if min(workers, len(questions)) < 2 or CONTEXT.get_start_method() != "fork" or current_process().daemon:
        return answers
    left = list(reversed(range(len(questions))))
    asked: dict[Connection, tuple[int, Child]] = {}
    try:
        while left or asked:
            while left and len(asked) < workers:
                number = left.pop()
                with interrupts.held():  # no child answers a signal for its parent, and the parent knows every child
                    child = Child(_answer, questions[number])
                    asked[child.channel] = number, child
            ready = wait([*asked])
            for channel in [each for each in asked if each in ready]:
                number, child = asked.pop(channel)
                answers[number] = child.answer()
                child.end()
    finally:
        for _, child in asked.values():
            child.end()
    return answers


def _answer(channel: Connection, question: Callable[[], Any]) -> None:
    before = work.done()
    try:
        answer = question()
    except Exception:  # who needs it fails alike, where it can be told of what
        answer = None
    channel.send((answer, work.since(before)))
