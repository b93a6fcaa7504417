"""Branches in which native AMP computes or steps something else than what runs beside Apex.

`if use_amp: with autocast(): loss = f(x) else: loss = f(x)` is one forward, written twice. Where the two differ by more
than the region, or one steps an optimizer that the other leaves out, who asked for Apex would train something else
natively.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from textwrap import dedent

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.trees.nodes import Block, Statement, block_of, find, nested_statements


def other_loss(file: File) -> cst.If | None:
    """The first `if` of which one branch casts, and the other, which does not, computes what that does otherwise."""
    for node in file.tree.every(cst.If):
        if not isinstance(node.orelse, cst.Else):
            continue
        branches = [block_of(node), block_of(node.orelse)]
        casting = [each for each in branches if any(_regions(file, each))]
        if len(casting) == 1:
            inside = (each for region in _regions(file, casting[0]) for each in nested_statements(block_of(region)))
            names = {name for each in inside for name in _given(each)}
            one, other = ([*_computing(file, each, names)] for each in branches)
            if other and one and one != other:
                return node
    return None


def fewer_steps(file: File) -> cst.If | None:
    """The first `if` of which one side steps through a scaler, and leaves out what the other side steps."""
    for node in file.tree.every(cst.If):
        sides = [] if node.orelse is None else [[*stepped(file, each)] for each in (node.body, node.orelse)]
        scaled = [any(is_scaled for _, is_scaled in side) for side in sides]
        if sorted(scaled) == [False, True]:
            native, other = ({what for what, _ in sides[scaled.index(each)]} for each in (True, False))
            if not other <= native:
                return node
    return None


def stepped(file: File, side: cst.CSTNode) -> Iterator[tuple[str, bool]]:
    """What one side of a test steps, each with whether a scaler does."""
    for call in find(side, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "step":
            yield file.tree.code(call.args[0].value if call.args else call.func.value), bool(call.args)


def _regions(file: File, block: Block) -> Iterator[cst.With]:
    """The regions that stand in a branch, under no other test."""
    for each in block.body:
        if isinstance(each, cst.With):
            calls = (item.item for item in each.items)
            is_region = all(isinstance(call, cst.Call) and names_amp(file, call.func) for call in calls)
            yield from (each,) if is_region else _regions(file, block_of(each))


def _computing(file: File, block: Block, names: set[str]) -> Iterator[str]:
    """The statements of a branch that give some names a value, in one spelling."""
    for each in nested_statements(block):
        if not names.isdisjoint(_given(each)):
            yield ast.unparse(ast.parse(dedent(file.tree.code(each))))


def _given(statement: Statement) -> set[str]:
    """The names that a statement by itself gives a value."""
    targets = [each.target for each in statement.targets] if isinstance(statement, cst.Assign) else []
    targets += [statement.target] if isinstance(statement, (cst.AugAssign, cst.AnnAssign)) else []
    names = (dotted(each) for target in targets for each in (target, *find(target, cst.Name)))
    return {each for each in names if each is not None}
