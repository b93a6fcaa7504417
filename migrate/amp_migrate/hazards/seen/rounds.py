"""The loops in whose rounds something happens, by itself or in a function that is called in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.flow.source import Code
from amp_migrate.hazards.seen.flowing import Flowing

# A statement of a loop, and those in the functions that it leads through, each with its file.
Way: TypeAlias = "tuple[tuple[File, cst.CSTNode], ...]"


@dataclass(frozen=True, eq=False)
class Round:
    """A loop, and the way from it to something that happens.

    Attributes:
        file: the file of the loop.
        loop: the innermost loop; None where the way begins with a function that nobody is seen to call.
        way: the statements that lead there.
    """

    file: File
    loop: cst.For | cst.While | None
    way: Way


def rounds(flowing: Flowing, file: File, statement: cst.CSTNode) -> Iterator[Round]:
    """Every loop that something happens in: the one around it, else those around the calls of its function.

    Each function on the way is gone through once, however many calls lead from it to what happens.
    """
    yield from _rounds(flowing, file, statement, (), set())


def branches(file: File, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The branching statements between a statement and the loop or function around it, nearest first."""
    around = takewhile(lambda node: not isinstance(node, _BOUNDS), file.tree.ancestors(statement))
    return [node for node in around if isinstance(node, (cst.If, cst.Try, cst.Match))]


def is_in_each(flowing: Flowing, file: File, statement: cst.CSTNode) -> bool:
    """Whether something happens in every round of a loop, with no branch on the way."""
    return any(not any(branches(*one) for one in each.way) for each in rounds(flowing, file, statement))


def _rounds(
    flowing: Flowing, file: File, statement: cst.CSTNode, way: Way, passed: set[Code | None]
) -> Iterator[Round]:
    way = ((file, statement), *way)
    loop = file.tree.loop(statement)
    code = None if loop is not None else flowing.code_of(file, file.tree.function(statement))
    callers = [] if code is None else [*flowing.calls_of(code)]
    if not callers:
        yield Round(file, loop, way)
    elif code not in passed:
        passed.add(code)
        for caller, call in callers:
            yield from _rounds(flowing, caller, call, way, passed)


_BOUNDS = (cst.For, cst.While, cst.FunctionDef)
