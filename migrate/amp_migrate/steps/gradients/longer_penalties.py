"""Calls for a gradient penalty that stand in a longer expression: `loss = D(fake).mean() - D(real).mean() + gp(D, x)`.

The statement stays outside every region, for the call. What is computed in front of it gets a name in a region before,
so that all is computed in the order in which it was: batch norms and random numbers go by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.result_names import free_name
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.model.training_step import Extraction
from amp_migrate.steps.regions.find_regions import may_be_cast
from amp_migrate.steps.statements.data_flow import reads, statement_reads, targets
from amp_migrate.trees.nodes import Statement, find, last_word, walk


def computed_before(file: File, roles: Roles, statement: Statement, call: cst.Call) -> tuple[Extraction, ...] | None:
    """What a statement computes before a call in it that has to stay outside the regions; None where it cannot stay.

    Nothing is computed in a region for its arguments, or behind it in its statement.
    """
    if not isinstance(statement, (cst.Assign, cst.AugAssign, cst.Expr, cst.Return)) or _keeps(file, statement, call):
        return None
    if any(roles.runs_forward(file, inner) for arg in call.args for inner in find(arg.value, cst.Call)):
        return None
    if statement.value is call:
        return () if isinstance(statement, (cst.Assign, cst.Expr)) else None
    sides = _left_sides(file, statement, call)
    if sides is None or any(roles.taking_gradients(file, each) for side in sides for each in find(side, cst.Call)):
        return None
    last = max((index for index, side in enumerate(sides) if may_be_cast(file, roles, walk(side))), default=-1)
    before = [side for side in sides[: last + 1] if any(True for _ in find(side, cst.Call))]
    known = {node for each in (*sides, call) for node in walk(each)}
    behind = (each for each in find(statement, cst.Call) if each not in known)
    if any(roles.runs_forward(file, each) or roles.losses.computes(file, each) for each in behind):
        return None
    kept = next(map(last_word, targets(statement)), "") or "loss"
    names = (free_name(file, statement, f"{kept}_part", index) for index in range(len(before)))
    return tuple(Extraction(statement, side, name, is_cast=False) for side, name in zip(before, names, strict=True))


def _keeps(file: File, statement: Statement, call: cst.Call) -> bool:
    """Whether a running mean goes on with what it was: it would keep what an overflow makes of it for good."""
    given = reads([arg.value for arg in call.args])
    kept = {dotted(target) for target in targets(statement)}
    if not kept.isdisjoint(given):
        return True
    is_read = isinstance(statement, cst.AugAssign) or not kept.isdisjoint(statement_reads(statement))
    return is_read and not kept <= {dotted(each) for each in _begun(file, statement)}


def _begun(file: File, statement: Statement) -> Iterator[cst.BaseExpression]:
    """What gets a value in the round of the loop that a statement is in, or in its function, before it surely."""
    loop, at = file.tree.loop(statement), statement
    while True:
        siblings = file.tree.siblings(at)
        for each in siblings[: siblings.index(at)]:
            given = reads([each.value]) if isinstance(each, cst.Assign) else frozenset()
            fresh = targets(each) if isinstance(each, cst.Assign) else []
            yield from (target for target in fresh if dotted(target) not in given)
        above = next((each for each in file.tree.ancestors(at) if isinstance(each, cst.BaseCompoundStatement)), None)
        if above is None or above is loop or isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return
        at = cast("Statement", above)


def _left_sides(file: File, statement: Statement, call: cst.Call) -> list[cst.BaseExpression] | None:
    """What is computed before a call, as far as it is a term or factor of its statement; None where it is no such."""
    sides: list[cst.BaseExpression] = []
    inner: cst.CSTNode = call
    for each in file.tree.ancestors(call):
        if each is statement:
            return sides[::-1]
        if isinstance(each, cst.BinaryOperation) and each.right is inner:
            sides.append(each.left)
        elif not (
            (isinstance(each, cst.BinaryOperation) and each.left is inner)
            or (isinstance(each, (cst.Attribute, cst.Subscript)) and each.value is inner)
            or (isinstance(each, cst.Call) and each.func is inner)
            or isinstance(each, cst.UnaryOperation)
        ):
            return None
        inner = each
    return None
