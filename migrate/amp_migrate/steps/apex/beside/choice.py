"""How a script chooses between Apex and native AMP: by a flag, or by what something is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.steps.apex.initialize.branches import branch_of, branches_of
from amp_migrate.steps.statements.amp_signs import is_scaled, names_amp
from amp_migrate.steps.statements.bodies import backward_calls
from amp_migrate.trees.nodes import Block, Statement, is_constant, statements


@dataclass(frozen=True)
class Choice:
    """How a script chooses between the two, as code.

    Attributes:
        asked: a flag, or what is compared.
        apex: the value that chooses Apex; None where `asked` is a flag.
        native: the value that chooses native AMP, or the flag that does; None where that is what is left without Apex.
        always: each `if` that sets native AMP up, and the flag in its `else`: what it does is always done then.
    """

    asked: str
    apex: str | None
    native: str | None
    always: tuple[tuple[File, cst.If], ...] = ()


def find_choice(file: File, statement: Statement) -> Choice | None:
    """How an Apex step is chosen, where another branch somewhere in the file does the same by native AMP."""
    inner: cst.CSTNode | None = statement
    while inner is not None and not isinstance(inner, cst.FunctionDef):
        at = file.tree.statement(inner)
        branch = branch_of(file, at)
        for test in () if branch is None or branch.test is None else parts_of(branch.test):
            found = {each for chain in file.tree.every(cst.If) for each in _choices(file, chain, test)}
            if len(found) == 1:
                return found.pop()
        inner = file.tree.parents.get(file.tree.block(at if branch is None else branch.chain))
    return None


def _choices(file: File, chain: cst.If, test: cst.BaseExpression) -> Iterator[Choice]:
    """What an `if` says of a choice: a part of one of its tests chooses Apex, another branch goes natively."""
    asked, apex = _compared(file, test) or (dotted(test), None)
    if asked is None or (apex is None and is_fixed(file, test)) or file.tree.statement(chain) is not chain:
        return
    branches = [(() if each is None else tuple(parts_of(each)), block) for each, block in branches_of(chain)]
    for parts, _ in branches:
        mine = set(map(file.tree.code, parts))
        if file.tree.code(test) not in mine:
            continue
        for others, block in branches:
            if not goes_natively(file, block, is_asked=bool(others)):
                continue
            theirs = [each for each in others if file.tree.code(each) not in mine]
            values = [_compared(file, each) for each in theirs]
            if not others and len(parts) == 1:
                yield Choice(asked, apex, None)
            elif apex is not None:
                yield from (Choice(asked, apex, each[1]) for each in values if each is not None and each[0] == asked)
            elif len(theirs) == 1 and (flag := dotted(theirs[0])) and _flags(parts, others) == [asked]:
                yield Choice(asked, None, flag)


def _flags(parts: Sequence[cst.BaseExpression], others: Sequence[cst.BaseExpression]) -> list[str]:
    """The flags among some tests that are not among others."""
    known = set(map(dotted, others))
    return [name for each in parts if (name := dotted(each)) is not None and name not in known]


def parts_of(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What has to be so for a test to be true."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from (*parts_of(test.left), *parts_of(test.right))
    else:
        yield test


def _compared(file: File, test: cst.BaseExpression) -> tuple[str, str] | None:
    """What a test compares with which constant."""
    constants = constants_of(test.comparisons[0]) if isinstance(test, cst.Comparison) else []
    if not isinstance(test, cst.Comparison) or not isinstance(operator_of(test), cst.Equal) or len(constants) != 1:
        return None
    return None if dotted(test.left) is None else (file.tree.code(test.left), file.tree.code(constants[0]))


def operator_of(node: cst.BaseExpression) -> cst.BaseCompOp:
    """How a comparison compares."""
    return cst.ensure_type(node, cst.Comparison).comparisons[0].operator


def constants_of(target: cst.ComparisonTarget) -> list[cst.BaseExpression]:
    """The constants that something is compared with; none where one of them is something else."""
    other = target.comparator
    is_many = isinstance(other, (cst.Tuple, cst.List, cst.Set))
    found = [each.value for each in other.elements] if isinstance(other, (cst.Tuple, cst.List, cst.Set)) else [other]
    is_known = all(isinstance(each, (cst.SimpleString, cst.Integer)) or is_constant(each, "None") for each in found)
    return found if is_known and is_many is isinstance(target.operator, (cst.In, cst.NotIn)) else []


def is_fixed(file: File, test: cst.BaseExpression) -> bool:
    """Whether a name only says what is installed: the module gives it True and False."""
    values = [each.value for each in object_bindings(file, test)]
    is_of_module = isinstance(test, cst.Name) and file.scopes.of(test).find(test.value) is file.scopes.module
    return is_of_module and all(is_constant(each, "True") or is_constant(each, "False") for each in values)


def goes_natively(file: File, block: Block, *, is_asked: bool) -> bool:
    """Whether a branch scales losses itself, or names autocast; in an `else`, under no further condition."""
    if any(is_scaled(cst.ensure_type(call.func, cst.Attribute).value) for _, call in backward_calls(block)):
        return True
    return any(names_amp(file, each) for each in statements(block) if is_asked or not isinstance(each, cst.If))
