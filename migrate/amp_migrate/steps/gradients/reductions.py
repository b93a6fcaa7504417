"""Code that adds up gradients over the processes of a training.

It has to do so while they are scaled: `unscale_` looks for infinities, and where one process finds some that another
does not see, the one skips its step and the other does not, and their loss scales go apart. `DistributedDataParallel`
adds them up inside of `backward()`, for the same reason
(https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-gpus).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.statements.data_flow import statement_reads, writes
from amp_migrate.tables.torch_names import GRADIENT_COLLECTIVES
from amp_migrate.trees.nodes import Statement, block_of, find, header, nested_statements

_Known: TypeAlias = "dict[tuple[cst.FunctionDef, int], bool]"


def reduces_gradients(file: File, roles: Roles, statement: Statement) -> bool:
    """Whether a statement by itself, or a function that it calls, adds up gradients over processes."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return False
    calls = [call for part in header(statement) for call in find(part, cst.Call)]
    known: _Known = {}
    return any(_is_of_gradient(file, call, frozenset()) or _reduces(file, roles, call, 0, known) for call in calls)


def _reduces(file: File, roles: Roles, call: cst.Call, depth: int, known: _Known) -> bool:
    """Whether a call runs a function of the project that adds up gradients; `known` are those that were asked about."""
    function = roles.project.meant(file, call, "grad")
    if function is None:
        return False
    # The ways to a function may be many times as many as functions.
    if (function.node, depth) not in known:
        known[function.node, depth] = _adds_up(function, roles, depth, known)
    return known[function.node, depth]


def _adds_up(function: FunctionRef, roles: Roles, depth: int, known: _Known) -> bool:
    body = list(nested_statements(block_of(function.node)))
    names = frozenset(_made_of_gradients(body))
    for inner in (inner for each in body for part in header(each) for inner in find(part, cst.Call)):
        if _is_of_gradient(function.file, inner, names):
            return True
        if depth < MAX_HOPS and _reduces(function.file, roles, inner, depth + 1, known):
            return True
    return False


def _is_of_gradient(file: File, call: cst.Call, names: frozenset[str]) -> bool:
    """Whether a call is a collective operation on a gradient, or on one of some names."""
    is_collective = file.names.callee(call) in GRADIENT_COLLECTIVES
    return is_collective and any(_has_gradient(each) or _names(each) & names for each in call.args)


def _made_of_gradients(body: list[Statement]) -> Iterator[str]:
    """The names in a function that hold gradients, or what is made of some."""
    names: set[str] = set()
    for statement in (*body, *body):  # what a loop makes is there when it comes round
        if _has_gradient(*header(statement)) or statement_reads(statement) & names:
            names |= writes(statement)
    yield from names


def _has_gradient(*nodes: cst.CSTNode) -> bool:
    return any(each.attr.value == "grad" for node in nodes for each in find(node, cst.Attribute))


def _names(node: cst.CSTNode) -> set[str]:
    return {each.value for each in find(node, cst.Name)}
