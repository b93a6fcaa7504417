"""The calls that run with a statement, or in a body."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.trees.tree import Block, Statement, find, header, nested_statements


def calls_of(statement: Statement) -> Iterator[cst.Call]:
    """The calls that a statement evaluates by itself, those of its blocks left out."""
    return (call for part in header(statement) for call in find(part, cst.Call))


def calls_in(body: Block) -> Iterator[tuple[Statement, cst.Call]]:
    """Every call that runs in a body, with its statement; not those of the functions and classes that it defines."""
    for statement in nested_statements(body):
        if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield from ((statement, call) for call in calls_of(statement))
