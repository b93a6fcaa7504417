"""How much a run has done, counted where it is done: what `--statistics` shows, and what tests of speed hold on to.

Counts do not depend on the machine, as seconds do. Each process has its own; those of the other processes of a run are
added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum


class Work(str, Enum):
    """What is counted; the value is what it is called."""

    READ = "files read"
    BYTES = "bytes read"
    PACKAGES = "files of installed packages read"
    LOOKED_AT = "lines looked at by Python's parser"
    AST = "lines parsed by ast"
    LIBCST = "lines parsed by LibCST"
    LIBCST_FILES = "files parsed by LibCST"
    PROGRAMS = "programs interpreted"
    STATEMENTS = "statements interpreted"
    PLANS = "plans made"
    EDITS = "edits planned"


_done: Counter[Work] = Counter()


def count(what: Work, number: int = 1) -> None:
    """Count something that has been done."""
    _done[what] += number


def count_lines(what: Work, text: str) -> None:
    """Count the lines of a text."""
    _done[what] += text.count("\n") + (not text.endswith("\n"))


def begin() -> None:
    """Count from nothing again."""
    _done.clear()


def done() -> Mapping[Work, int]:
    """What has been counted so far, in this process and in those that were added, in the order of `Work`."""
    return {what: _done[what] for what in Work}


def since(before: Mapping[Work, int]) -> Mapping[Work, int]:
    """What has been counted since `done` gave `before`."""
    return {what: _done[what] - before[what] for what in Work}


def add(other: Mapping[Work, int]) -> None:
    """Add what another process has counted."""
    _done.update(other)
