"""`amp.initialize` in branches: under which conditions it is called, and several calls of which one is made."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.frozen import frozen
from amp_migrate.steps.apex.initialize.put_in import put_in
from amp_migrate.steps.apex.uses.amp_tests import settled, without_amp_tests
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.tables.apex_names import DYNAMIC_SCALE
from amp_migrate.trees import build
from amp_migrate.trees.nodes import IS_SCRIPT, Block, Statement, blocks, find, never_holds, walk


@frozen
class Branch:
    """Where a statement stands in an `if` with all its `elif` and `else`.

    Attributes:
        chain: the `if`.
        block: the branch.
        tests: the tests of the branches before it, which have failed.
        test: its own; None for an `else`.
    """

    chain: cst.If
    block: Block
    tests: tuple[cst.BaseExpression, ...]
    test: cst.BaseExpression | None

    def condition(self, file: File) -> tuple[str, ...]:
        """What is true in the branch, as code; nothing where it is only asked that Apex is there."""
        failed = [settled(file, test) for test in self.tests if not never_holds(test)]
        own = True if self.test is None else settled(file, self.test)
        if own is False or True in failed:
            return ("False",)
        asked = tuple(negated(each) for each in failed if not isinstance(each, bool))
        return asked if own is True else (*asked, file.tree.code(own))


def branch_of(file: File, statement: Statement) -> Branch | None:
    """The branch that a statement stands in directly; None where it stands in none."""
    block = file.tree.block(statement)
    around = file.tree.parents.get(block)
    if isinstance(around, cst.Else):
        around = file.tree.parents[around]
    chain = file.tree.statement(around) if isinstance(around, cst.If) else None
    if not isinstance(chain, cst.If):
        return None
    tests: list[cst.BaseExpression] = []
    current: cst.If | cst.Else | None = chain
    while isinstance(current, cst.If) and current.body is not block:
        tests.append(current.test)
        current = current.orelse
    return Branch(chain, block, tuple(tests), current.test if isinstance(current, cst.If) else None)


def is_script(file: File, branch: Branch) -> bool:
    """Whether a branch asks only whether its file is the script that was started."""
    return branch.test is not None and file.tree.code(branch.test) in IS_SCRIPT


def place_of(
    file: File, statement: Statement, optimizer: cst.BaseExpression | None
) -> tuple[Statement, tuple[str, ...]]:
    """The outermost statement that decides whether Apex is initialized, and its conditions for that.

    An `if` further out decides about Apex as well where it makes the same optimizer in another of its branches.
    """
    home: Statement = statement
    conditions: tuple[str, ...] = ()
    while (branch := branch_of(file, home)) is not None:
        if is_script(file, branch):
            break
        is_next = not conditions
        bound_inside = _bound(file, branch.chain)
        if not is_next and not _makes_elsewhere(file, branch, optimizer):
            break
        if any(reads([build.expression(code)]) & bound_inside for code in conditions):
            break
        home, conditions = branch.chain, (*branch.condition(file), *conditions)
    return home, conditions


def choice_of(file: File, chain: cst.If, statements: Sequence[Statement]) -> tuple[str, ...] | None:
    """Under which condition one of some statements runs, each of which stands in a branch of an `if` of its own.

    Returns:
        None where a branch has none of them.
    """
    branches = branches_of(chain)
    if [file.tree.block(each) for each in statements] != [block for _, block in branches]:
        return None
    tests = [file.tree.code(without_amp_tests(file, test)) for test, _ in branches if test is not None]
    return (" or ".join(tests),) if len(tests) == len(branches) else ()


def is_said_before(file: File, holder: Statement, codes: Sequence[str]) -> bool:
    """Whether some expressions mean before an `if` or a loop what they mean in it."""
    said = reads([build.expression(code) for code in codes])
    return not any(bound in said or bound.partition(".")[0] in said for bound in _bound(file, holder))


def before(file: File, home: Statement, node: cst.BaseExpression, at: Statement) -> cst.BaseExpression | None:
    """What says before one statement what an expression says at another inside it.

    A name that has its value from inside gives way to what that is made of: `"O1"`, where the `if` begins with
    `opt_level = "O1"`.

    Returns:
        None where such a name may have several values, or where a call gives it.
    """
    if not isinstance(home, cst.If):
        return node
    values: dict[str, cst.BaseExpression] = {}
    for name in (each for each in _bound(file, home) if is_read(node, each)):
        given = _given_last(file, home, name, at)
        said = None if given is None else before(file, home, given[1], given[0])
        if said is None:
            return None
        values[name] = said
    return build.expression(put_in(file.tree.code(node), values)) if values else node


def _given_last(file: File, home: Statement, name: str, at: Statement) -> tuple[Statement, cst.BaseExpression] | None:
    """The assignment in a statement that a name has its value from at another inside it, with what it assigns."""
    tree = file.tree
    inside = set(walk(home))
    nodes = [each for each in file.scopes.of(home).lookup(name) if each.node in inside]
    earlier = sorted(
        (each for each in nodes if tree.order[each.node] < tree.order[at]), key=lambda b: tree.order[b.node]
    )
    last = earlier[-1] if earlier else None
    if last is None or last.kind is not BindingKind.ASSIGNMENT or last.value is None or any(find(last.value, cst.Call)):
        return None
    statement = tree.statement(last.node)
    return (statement, last.value) if tree.block(statement) in tree.ancestors(at) else None


def is_read(node: cst.BaseExpression, name: str) -> bool:
    """Whether an expression reads a name, or what was put into an attribute of it."""
    paths = (dotted(each) for each in walk(node) if isinstance(each, cst.Attribute))
    return name in reads([node]) or name in paths


def chosen_scale(file: File, chain: cst.If, scales: Sequence[str | None]) -> str | None:
    """The loss scale to begin with, where each branch of an `if` has its own."""
    if len(set(scales)) == 1:
        return scales[0]
    tests = [test for test, _ in branches_of(chain) if test is not None]
    code = scales[-1] or DYNAMIC_SCALE
    for test, scale in reversed([*zip(tests, scales[:-1], strict=False)]):
        code = f"{scale or DYNAMIC_SCALE} if {file.tree.code(without_amp_tests(file, test))} else {code}"
    return code


def chosen_switch(file: File, chain: cst.If, switches: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The condition of mixed precision, where each branch of an `if` has its own; off where none of them runs."""
    branches = branches_of(chain)
    has_else = branches[-1][0] is None
    on = " and ".join(switches[-1]) or "True" if has_else else "False"
    tests = [test for test, _ in branches if test is not None]
    for test, own in reversed([*zip(tests, switches, strict=False)]):
        code, mine = grouped(file.tree.code(without_amp_tests(file, test))), " and ".join(own) or "True"
        if mine == on:
            continue
        if mine == "True" and not _is_other_level(file, test, on):
            on = code if on == "False" else f"{code} or {on}"
        elif mine == "False":
            on = negated(test) if on == "True" else f"{negated(test)} and {grouped(on)}"
        elif mine != "True":
            on = f"{mine} and {code}" if on == "False" else f"{mine} if {code} else {on}"
    return (on,)


def _is_other_level(file: File, test: cst.BaseExpression, on: str) -> bool:
    """Whether `level == "O1"` is a part of `level != "O0"`, which is asked anyway."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    compared = test.comparisons[0]
    is_level = isinstance(compared.comparator, cst.SimpleString) and compared.comparator.evaluated_value != "O0"
    is_asked = on == f'{file.tree.code(test.left)} != "O0"'
    return is_level and is_asked and isinstance(compared.operator, cst.Equal)


def grouped(code: str) -> str:
    """An expression as it can stand beside `and`, `or` and `if`."""
    is_apart = isinstance(build.expression(code), (cst.BooleanOperation, cst.IfExp, cst.UnaryOperation))
    return f"({code})" if is_apart else code


def branches_of(chain: cst.If) -> list[tuple[cst.BaseExpression | None, Block]]:
    """The branches of an `if` with their tests; None is that of an `else`."""
    tests: list[cst.BaseExpression | None] = []
    current: cst.If | cst.Else | None = chain
    while isinstance(current, cst.If):
        tests.append(current.test)
        current = current.orelse
    return [*zip([*tests, None], blocks(chain), strict=False)]


def _makes_elsewhere(file: File, branch: Branch, optimizer: cst.BaseExpression | None) -> bool:
    path = None if optimizer is None else dotted(optimizer)
    if path is None or optimizer is None:
        return False
    inside, outside = set(walk(branch.block)), set(walk(branch.chain))
    return any(b.node in outside and b.node not in inside for b in file.scopes.of(optimizer).lookup(path))


def _bound(file: File, holder: Statement) -> set[str]:
    """The names that get a value in an `if` or a loop."""
    inside = set(walk(holder))
    bindings = file.scopes.of(holder).bindings
    return {name for name, found in bindings.items() if any(binding.node in inside for binding in found)}


def negated(test: cst.BaseExpression) -> str:
    """The code of a condition that is true where another is not."""
    code = cst.Module([]).code_for_node
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return code(test.expression)
    if isinstance(test, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return f"not {code(test)}"
    return f"not ({code(test)})"
