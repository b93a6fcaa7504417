"""The bodies of a file, and the calls in them that a training step is found from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import Block, Statement, block_of
from amp_migrate.trees.own_calls import calls_in


def bodies(file: File) -> Iterator[tuple[cst.FunctionDef | None, Block]]:
    """The module's own code and every function of a file, in source order."""
    yield None, file.tree.module
    for node in file.tree.every(cst.FunctionDef):
        yield node, block_of(node)


def backward_calls(body: Block) -> Iterator[tuple[Statement, cst.Call]]:
    """Every call of a method named `backward` that runs in a body, with its statement."""
    for statement, call in calls_in(body):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            yield statement, call


def outermost_loop(file: File, statement: Statement) -> cst.For | cst.While | None:
    """The outermost loop of a body round a statement of it: one training of a script, where it has several."""
    return next(reversed([*file.tree.loops(statement)]), None)
