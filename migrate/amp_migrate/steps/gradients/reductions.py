"""Code that adds up gradients over the processes of a training.

It has to do so while they are scaled: `unscale_` looks for infinities, and where one process finds some that another
does not see, the one skips its step and the other does not, and their loss scales go apart. `DistributedDataParallel`
adds them up inside of `backward()`, for the same reason
(https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-gpus).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.hops import MAX_HOPS
from amp_migrate.analysis.project import FunctionRef
from amp_migrate.analysis.roles import Roles
from amp_migrate.frozen import frozen
from amp_migrate.steps.statements.data_flow import statement_reads, targets, writes
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


@frozen
class OfCollected:
    """What a body does with gradients that it takes out to be added up over processes: `grads = [p.grad for p in ps]`.

    Attributes:
        reducing: what takes them out, adds them up, divides them, or puts them back.
        using: what else is made of them: a norm of all, or a limit.
    """

    reducing: frozenset[Statement] = frozenset()
    using: frozenset[Statement] = frozenset()


def of_collected(file: File, roles: Roles, body: Sequence[Statement]) -> OfCollected:
    """What some statements do with gradients that they take out, and add up by a name that these have."""
    taken = {each: key for each in body if (key := _taken_out(each))}
    names, summed = _closure(body, frozenset(taken.values())), set[Statement]()
    for statement in body:
        calls = [call for part in header(statement) for call in find(part, cst.Call)]
        given = [each for each in calls if names and not _has_gradient(*each.args)]
        if any(_is_of_gradient(file, each, names) or _sums_given(file, roles, each, names) for each in given):
            summed.add(statement)
    if not summed:
        return OfCollected()
    reducing, using = summed | taken.keys(), set[Statement]()
    for statement in (each for each in body if each not in reducing and not isinstance(each, cst.For)):
        if statement_reads(statement) & names:
            (reducing if _keeps_proportion(statement, names) else using).add(statement)
    return OfCollected(frozenset(reducing), frozenset(using))


def _sums_given(file: File, roles: Roles, call: cst.Call, names: frozenset[str]) -> bool:
    """Whether a call gives what has some of the names to a function of the project that has a collective operation."""
    function = roles.project.called(file, call) if any(_names(each) & names for each in call.args) else None
    inner = () if function is None else find(function.node.body, cst.Call)
    return function is not None and any(function.file.names.callee(e) in GRADIENT_COLLECTIVES for e in inner)


def _taken_out(statement: Statement) -> str | None:
    """The name by which a statement keeps gradients: `grads = [...]`, `grads.append(p.grad)`."""
    value = statement.value if isinstance(statement, (cst.Assign, cst.Expr)) else None
    if value is None or not _has_gradient(value):
        return None
    if isinstance(statement, cst.Assign):
        target = statement.targets[0].target
        return target.value if isinstance(target, cst.Name) else None
    func = value.func if isinstance(value, cst.Call) else None
    is_put = isinstance(func, cst.Attribute) and func.attr.value in ("append", "extend")
    return func.value.value if is_put and isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) else None


def _closure(body: Sequence[Statement], names: frozenset[str]) -> frozenset[str]:
    """Some names, and those of what is made of these, as what a loop over them gives."""
    for statement in (*body, *body):
        if statement_reads(statement) & names:
            names |= {each for each in writes(statement) if not _has_gradient(*targets(statement))}
    return names


def _keeps_proportion(statement: Statement, names: frozenset[str]) -> bool:
    """Whether a statement divides gradients by what is not made of them, or puts them back as they are."""
    if isinstance(statement, cst.AugAssign):
        is_scaled = isinstance(statement.operator, (cst.DivideAssign, cst.MultiplyAssign))
        return is_scaled and not _names(statement.value) & names
    if isinstance(statement, cst.Assign) and _has_gradient(statement.targets[0].target):
        return True
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    word, is_given = call.func.attr.value, any(_names(each) & names for each in call.args)
    return word == "copy_" or (word in ("div_", "mul_") and not is_given)


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
