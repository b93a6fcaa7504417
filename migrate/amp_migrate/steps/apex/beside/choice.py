"""How a script chooses between Apex and native AMP: by a flag, or by what something is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.beside.conditions import Condition, conditions, is_fixed, meant, scaled, switched, with_apex
from amp_migrate.steps.statements.amp_signs import is_scaled, names_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.trees.nodes import Block, Statement, block_of, is_constant, statements

NAMING = (cst.Attribute, cst.ImportAlias, cst.ImportFrom)  # a name that is imported does nothing yet


@frozen
class Choice:
    """How a script chooses between the two, as code.

    Attributes:
        asked: a flag, or what is compared.
        apex: the value that chooses Apex; None where `asked` is a flag.
        native: the value that chooses native AMP, or the flag that does; None where that is what is left without Apex.
        always: each `if` that sets native AMP up, and the flag in its `else`: what it does is always done then.
        chosen: the value of the flag `asked` that chooses Apex.
    """

    asked: str
    apex: str | None
    native: str | None
    always: tuple[tuple[File, cst.If], ...] = ()
    chosen: bool = True


def find_choice(project: Project, file: File, statement: Statement) -> Choice | None:
    """How an Apex step is chosen, where native AMP somewhere in the file is chosen by the opposite of that.

    What is installed is asked for last: beside another question, it says only whether that may be asked.
    """
    apex = with_apex(file, statement)
    natives = list(natively(file))
    for is_open in (True, False):
        found = {each for native in natives for each in _choices(project, file, apex, native, is_open=is_open)}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def natively(file: File) -> Iterator[frozenset[Condition]]:
    """What is true wherever a file casts or scales by itself."""
    for node in file.tree.every(cst.Name, cst.Attribute):
        if not isinstance(file.tree.parents[node], NAMING) and names_amp(file, node):
            yield switched(file, node)
    for _, body in bodies(file):
        for statement, call in backward_calls(body):
            loss = cst.ensure_type(call.func, cst.Attribute).value
            if is_scaled(loss):
                scale = cst.ensure_type(cst.ensure_type(loss, cst.Call).func, cst.Attribute)
                yield scaled(file, statement, scale.value)


def _choices(
    project: Project, file: File, apex: frozenset[Condition], native: frozenset[Condition], *, is_open: bool
) -> Iterator[Choice]:
    """What two places say of a choice: they differ by it alone.

    Args:
        is_open: whether what is installed does not count.
    """
    sides = (apex - native, native - apex)
    mine, theirs = ({each for each in side if not (is_open and is_fixed(file, each.node))} for side in sides)
    for each in mine:
        others = mine - {each}
        asked = _compared(project, file, each)
        if asked is not None:
            natives = {one for one in theirs if one.holds}
            is_alone = each.holds and not any(one.holds for one in others) and bool(theirs)
            if (
                is_alone
                and all(_compares(project, file, one, asked[0]) for one in (*others, *theirs))
                and len(natives) < 2
            ):
                values = [found[1] for one in natives if (found := _compared(project, file, one)) is not None]
                yield Choice(*asked, values[0] if values else None)
        elif (flag := None if dotted(each.node) is None else each.code) is not None:
            if not others and theirs == {each.negated}:
                yield Choice(flag, None, None, chosen=each.holds)
            flags = [one for one in theirs if one.holds and one != each.negated and dotted(one.node) is not None]
            other = flags[0] if is_open and each.holds and len(flags) == 1 else None
            if other is not None and mine | theirs <= {each, other, each.negated, other.negated}:
                is_either = len(mine | theirs) > 2 or _know_of_each_other(file, each, other)
                yield from [Choice(flag, None, other.code)] if is_either else ()


def _know_of_each_other(file: File, one: Condition, other: Condition) -> bool:
    """Whether two flags choose between branches of one `if` somewhere."""
    for branch in file.tree.every(cst.If):
        found = conditions(file, statements(block_of(branch))[0])
        if {one, other.negated} <= found or {one.negated, other} <= found:
            return True
    return False


def _compares(project: Project, file: File, condition: Condition, asked: str) -> bool:
    found = _compared(project, file, condition)
    return found is not None and found[0] == asked


def _compared(project: Project, file: File, condition: Condition) -> tuple[str, str] | None:
    """What a condition compares with which constant."""
    test = condition.node
    constants = constants_of(project, file, test.comparisons[0]) if isinstance(test, cst.Comparison) else []
    is_one = len(constants) == 1 and isinstance(operator_of(test), (cst.Equal, cst.NotEqual))
    if not isinstance(test, cst.Comparison) or not is_one or dotted(test.left) is None:
        return None
    return meant(file, test.left), file.tree.code(constants[0])


def operator_of(node: cst.BaseExpression) -> cst.BaseCompOp:
    """How a comparison compares."""
    return cst.ensure_type(node, cst.Comparison).comparisons[0].operator


def constants_of(project: Project, file: File, target: cst.ComparisonTarget) -> list[cst.BaseExpression]:
    """The constants that something is compared with; none where one of them is something else."""
    other = target.comparator
    is_many = isinstance(other, (cst.Tuple, cst.List, cst.Set))
    found = [each.value for each in other.elements] if isinstance(other, (cst.Tuple, cst.List, cst.Set)) else [other]
    plain = (cst.SimpleString, cst.Integer)
    is_known = all(
        isinstance(each, plain) or is_constant(each, "None") or _is_member(project, file, each) for each in found
    )
    return found if is_known and is_many is isinstance(target.operator, (cst.In, cst.NotIn)) else []


def _is_member(project: Project, file: File, node: cst.BaseExpression) -> bool:
    """Whether an expression names a member of an enumeration of the project."""
    found = project.definition(file, node.value) if isinstance(node, cst.Attribute) else None
    if found is None or not isinstance(found[1], cst.ClassDef):
        return False
    return any(found[0].names.full(base.value).startswith("enum.") for base in found[1].bases)


def goes_natively(file: File, block: Block) -> bool:
    """Whether a branch scales losses itself, or names autocast."""
    scaled = (is_scaled(cst.ensure_type(call.func, cst.Attribute).value) for _, call in backward_calls(block))
    return any(scaled) or names_amp(file, block)
