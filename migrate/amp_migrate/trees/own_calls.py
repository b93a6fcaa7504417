"""The calls that run with a statement, or in a body, and what they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from amp_migrate.trees.nodes import Block, Statement, find, header, nested_statements

# How the names of functions begin, or what they are called whole, that only look.
_LOOKS = re.compile(r"(is|has|get|should|can)(_|[A-Z]|$)|(all|any|getattr|hasattr|isinstance|issubclass|len)$")


def calls_of(statement: Statement) -> Iterator[cst.Call]:
    """The calls that a statement evaluates by itself, those of its blocks left out."""
    return (call for part in header(statement) for call in find(part, cst.Call))


def calls_in(body: Block) -> Iterator[tuple[Statement, cst.Call]]:
    """Every call that runs in a body, with its statement; not those of the functions and classes that it defines."""
    for statement in nested_statements(body):
        if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            yield from ((statement, call) for call in calls_of(statement))


def named_arguments(call: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression] | None:
    """A call's arguments by parameter name; None where one is starred or has no parameter."""
    found: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and index >= len(names)):
            return None
        found[names[index] if arg.keyword is None else arg.keyword.value] = arg.value
    return found


def argument(call: cst.Call, name: str, position: int | None) -> cst.BaseExpression | None:
    """What a call passes for a parameter; None where it passes nothing, or nobody can tell.

    Args:
        position: the place of the parameter, if it may be given by that.
    """
    for index, arg in enumerate(call.args):
        if arg.star:
            position = None
        elif name == arg.keyword.value if arg.keyword is not None else index == position:
            return arg.value
    return None


def may_act(condition: cst.BaseExpression) -> bool:
    """Whether evaluating a condition may do something that is missed without it: it calls more than what looks."""
    names = (
        call.func.attr if isinstance(call.func, cst.Attribute) else call.func for call in find(condition, cst.Call)
    )
    acts = any(not (isinstance(name, cst.Name) and _LOOKS.match(name.value)) for name in names)
    return acts or any(True for _ in find(condition, cst.NamedExpr))
