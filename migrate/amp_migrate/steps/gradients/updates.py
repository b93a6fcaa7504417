"""Where `scaler.update()` goes: once per iteration, after the last optimizer has stepped.

Where an iteration is of branches that each go backward and step by themselves, and may take none, it goes into each;
where all steps are under one test, each in an `if` of its own, into the last of these.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from itertools import pairwise

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.looped import chosen_in
from amp_migrate.implications import implied
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.training_step import Backward, OptimizerStep
from amp_migrate.steps.statements.data_flow import reads, writes
from amp_migrate.trees.nodes import (
    LOOP_TYPES,
    Block,
    Statement,
    block_of,
    blocks,
    inner_statements,
    nested_statements,
    statements,
)
from amp_migrate.trees.tree import Tree

_MAY_STEP_NONE = (
    "an iteration may step no optimizer at all, and scaler.update() would have nothing to go by",
    "call scaler.update() by hand where at least one optimizer has stepped, or run with --dtype bf16",
)
_MAY_NOT_STEP_AGAIN = (
    "an optimizer steps twice in one iteration, one of the two times perhaps, and scaler.update() would have nothing "
    "to go by there",
    _MAY_STEP_NONE[1],
)
_NEVER_ZERO = (
    "an optimizer steps twice in one iteration, with no zero_grad() between the two: true gradients would be added to "
    "scaled ones",
    "set its gradients to zero behind the first step if they are not meant to add up, or run with --dtype bf16",
)


def place_updates(file: File, backwards: list[Backward], steps: list[OptimizerStep]) -> tuple[Statement, ...] | Refusal:
    """The statements after which the scaler is updated.

    Steps share an update when they belong to one iteration: to the same innermost loop that also goes backward.
    """
    tree = file.tree
    loops_with_backward = {
        loop
        for backward in backwards
        for loop in tree.ancestors(backward.statement)
        if isinstance(loop, (cst.For, cst.While))
    }

    def iteration(statement: Statement) -> cst.CSTNode | None:
        return next((a for a in tree.ancestors(statement) if a in loops_with_backward), None)

    iterations: dict[cst.CSTNode | None, list[OptimizerStep]] = {}
    for step in steps:
        iterations.setdefault(iteration(step.statement), []).append(step)
    found: list[Statement] = []
    placed_behind: list[tuple[list[Statement], list[Statement]]] = []
    for loop, own in iterations.items():
        parts = _rounds(file, backwards, own)
        going = [each.statement for each in backwards if iteration(each.statement) is loop]
        for group, following in zip(parts, [*parts[1:], []], strict=True):
            if not group:
                return Refusal(
                    file,
                    steps[0].statement,
                    "an optimizer steps twice in one iteration, on gradients that are not parted by a backward()",
                    "step once for each backward(), or run with --dtype bf16, which needs no scaler",
                )
            # Each part has what goes backward up to its last step, and the last one what comes behind it, too.
            later = [each for each in going if following and tree.order[each] > tree.order[group[-1]]]
            placed = _after_group(tree, group, loops_with_backward)
            if placed is None:
                before = [each for each in going if each not in later]
                placed = _after_whole_branches(tree, group, before, loops_with_backward)
            if placed is None:
                return Refusal(file, group[0], *_why_not(tree, parts, steps))
            going = later
            found.extend(placed)
            placed_behind.append((group, placed))
    return _waiting(file, backwards, steps, placed_behind) or tuple(found)


def _why_not(tree: Tree, parts: list[list[Statement]], steps: list[OptimizerStep]) -> tuple[str, str]:
    """Why no place for an update is seen in an iteration, and what to do."""
    names = {each.statement: tree.code(each.optimizer) for each in steps}
    for before, after in pairwise(parts):
        name = names[after[0]]
        first = next(each for each in before if names[each] == name)
        between = range(tree.order[first], tree.order[after[0]])
        others = {each for each in names.values() if each != name}
        inside = (each for each, at in tree.order.items() if at in between and isinstance(each, cst.Expr))
        if not any(_clears(tree, each, others) for each in inside):
            return _NEVER_ZERO
    return _MAY_STEP_NONE if len(parts) == 1 else _MAY_NOT_STEP_AGAIN


def _waiting(
    file: File,
    backwards: list[Backward],
    steps: list[OptimizerStep],
    placed: list[tuple[list[Statement], list[Statement]]],
) -> Refusal | None:
    """An optimizer whose gradients add up over several rounds, in which the step of another one updates the scale.

    Args:
        placed: what steps, each with the updates behind it.
    """
    tree = file.tree
    named = [(tree.code(each.optimizer), each.statement) for each in steps]
    for group, updates in placed if len(placed) > 1 else ():
        own = {name for name, statement in named if statement in group}
        for update in updates:
            for name, statement in named:
                if name not in own and _waits(tree, name, statement, update, backwards, named):
                    stepped = f"the scale is updated behind the step of {' and '.join(sorted(own))}"
                    return Refusal(
                        file,
                        statement,
                        f"{stepped} while gradients of {name} add up for a later one",
                        "give each optimizer a scaler of its own by hand, or run with --dtype bf16",
                    )
    return None


def may_wait(file: File, backwards: list[Backward], steps: list[OptimizerStep], updates: tuple[Statement, ...]) -> bool:
    """Whether gradients of some optimizer may add up while its scale is updated, for one that it shares that with."""
    tree = file.tree
    named = [(tree.code(each.optimizer), each.statement) for each in steps]
    return any(
        not any(_steps_with(tree, one, update) for other, one in named if other == name)
        and _waits(tree, name, statement, update, backwards, named)
        for update in updates
        for name, statement in named
    )


def _steps_with(tree: Tree, step: Statement, update: Statement) -> bool:
    """Whether an optimizer has stepped wherever the scale is updated."""
    block = tree.common_block([step, update])
    holder, last = tree.lift(step, block), tree.lift(update, block)
    if isinstance(last, cst.If) and holder is not last and _is_one_test(tree, block, (holder, last), last):
        return isinstance(holder, cst.If) and any(always_runs(each, [step]) for each in _top(holder.body))
    return block is tree.block(update) and always_runs(holder, [step])


def _waits(
    tree: Tree,
    name: str,
    step: Statement,
    update: Statement,
    backwards: list[Backward],
    named: list[tuple[str, Statement]],
) -> bool:
    """Whether gradients may wait for a step from round to round of the loop that it shares with an update."""
    around = set(tree.ancestors(update))
    loops = [each for each in tree.ancestors(step) if isinstance(each, LOOP_TYPES)]
    loop = next((each for each in loops if each in around), None)
    if loop is None and loops and tree.loop(update) is not None:
        return False  # one behind the other: neither comes again
    body = tree.body(step) if loop is None else block_of(loop)
    rounds, inside = statements(body), list(nested_statements(body))
    if any(always_runs(each, [statement for other, statement in named if other == name]) for each in rounds):
        return False
    others = {other for other, _ in named} - {name}
    cleared = [each for each in inside if _clears(tree, each, others)]
    if any(always_runs(each, cleared) for each in rounds):
        return False
    tests = (each for each in tree.ancestors(step) if isinstance(each, cst.If) and each in inside)
    going = {each for backward in backwards for each in tree.ancestors(backward.statement)}
    return any(each not in going for each in tests)


def _clears(tree: Tree, statement: Statement, others: Collection[str]) -> bool:
    """Whether a statement clears gradients, be it those of a model, but not those of some optimizers."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    is_zero = isinstance(func, cst.Attribute) and func.attr.value == "zero_grad"
    return is_zero and tree.code(cst.ensure_type(func, cst.Attribute).value) not in others


def chosen_alone(tree: Tree, update: Statement, steps: Iterable[OptimizerStep], updates: Collection[Statement]) -> bool:
    """Whether a scale is updated behind a conditional expression in which alone an optimizer may have stepped."""
    if chosen_in(update) is None:
        return False
    stepping = {each.statement for each in steps}
    siblings = tree.siblings(update)
    for each in reversed(siblings[: siblings.index(update)]):
        inside = (each, *inner_statements(each))
        if not set(updates).isdisjoint(inside):
            return True
        if always_runs(each, stepping):
            return False
    return True


def _rounds(file: File, backwards: list[Backward], steps: list[OptimizerStep]) -> list[list[Statement]]:
    """The steps of an iteration, parted where an optimizer steps again: a scaler lets each step once per update.

    An empty part stands for one that cannot be: gradients on which a later step depends would keep the old scale.
    """
    tree = file.tree
    parts: list[list[OptimizerStep]] = [[]]
    for step in steps:
        name = tree.code(step.optimizer)
        again = [
            s for s in parts[-1] if tree.code(s.optimizer) == name and not exclude(tree, s.statement, step.statement)
        ]
        if again:
            parts.append([])
        parts[-1].append(step)
    for before, after in pairwise(parts):
        low, high = tree.order[before[-1].statement], tree.order[after[0].statement]
        if not any(low < tree.order[backward.statement] < high for backward in backwards):
            return [[]]
    return [[step.statement for step in part] for part in parts]


def exclude(tree: Tree, one: Statement, other: Statement) -> bool:
    """Whether two statements stand in different branches of one `if`, so that only one of them runs."""
    block = tree.common_block([one, other])
    first, second = tree.lift(one, block), tree.lift(other, block)
    return first is second and isinstance(first, (cst.If, cst.Try)) and first not in (one, other)


def _after_group(tree: Tree, group: list[Statement], iterations: Collection[cst.CSTNode]) -> list[Statement] | None:
    block = tree.common_block(list(group))
    while isinstance(loop := tree.parents.get(block), LOOP_TYPES) and loop not in iterations:
        block = tree.block(loop)  # `for optimizer in optimizers: optimizer.step()`
    holders = [tree.lift(statement, block) for statement in group]
    if len(set(holders)) == 1 and isinstance(holders[0], (cst.If, cst.Try)) and holders[0] not in group:
        return _after_branches(tree, holders[0], group, iterations)
    if len(set(holders)) == 1 and chosen_in(holders[0]) is not None:
        return holders  # it is updated in the arm that steps
    last = max(holders, key=lambda each: tree.order[each])
    if any(always_runs(holder, group) for holder in holders):
        return [last]
    if isinstance(last, cst.If) and _is_one_test(tree, block, holders, last):
        own = [each for each in group if tree.lift(each, block) is last]
        return _after_group(tree, own, iterations) if any(always_runs(each, own) for each in _top(last.body)) else None
    return None


def _is_one_test(tree: Tree, block: Block, holders: Collection[Statement], last: cst.If) -> bool:
    """Whether steps stand under `if`s that all ask the same, and nothing from the first to the last changes what."""
    tests = [each.test if isinstance(each, cst.If) and each.orelse is None else None for each in holders]
    asked = {None if each is None else tree.code(each) for each in tests}
    if len(asked) != 1 or None in asked or not implied(ast.parse(tree.code(last.test), mode="eval").body, True):
        return False
    orders = [tree.order[each] for each in holders]
    between = (each for each in statements(block) if min(orders) <= tree.order[each] < max(orders))
    inside = (one for each in between for one in (each, *inner_statements(each)))
    return reads([last.test]).isdisjoint(name for each in inside for name in writes(each))


def _after_branches(
    tree: Tree, branching: Statement, group: list[Statement], iterations: Collection[cst.CSTNode]
) -> list[Statement] | None:
    """Each branch that steps updates by itself."""
    found: list[Statement] = []
    for branch in blocks(branching):
        inside = set(nested_statements(branch))
        stepping = [statement for statement in group if statement in inside]
        if stepping:
            placed = _after_group(tree, stepping, iterations)
            if placed is None:
                return None
            found.extend(placed)
    return found


def _after_whole_branches(
    tree: Tree, group: list[Statement], backwards: list[Statement], iterations: Collection[cst.CSTNode]
) -> list[Statement] | None:
    """Behind the steps of each branching that surely steps where it goes backward, so that nothing scaled waits."""
    block = tree.common_block([*group, *backwards])
    found: list[Statement] = []
    for holder in dict.fromkeys(tree.lift(each, block) for each in (*backwards, *group)):
        stepping = [each for each in group if tree.lift(each, block) is holder]
        placed = _after_group(tree, stepping, iterations) if stepping and isinstance(holder, cst.If) else None
        if placed is None or not all(_is_whole(tree, branch, stepping, backwards) for branch in blocks(holder)):
            return None
        found.extend(placed)
    return found


def _is_whole(tree: Tree, branch: Block, group: list[Statement], backwards: list[Statement]) -> bool:
    """Whether a branch that steps goes backward before it, and one that goes backward surely steps behind it."""
    inside = set(nested_statements(branch))
    holders = [tree.lift(each, branch) for each in backwards if each in inside]
    if not holders:
        return inside.isdisjoint(group)
    last = max(holders, key=lambda each: tree.order[each])
    if any(always_runs(each, group) for each in statements(branch) if tree.order[each] >= tree.order[last]):
        return True
    is_all = {last} == {*holders, *(tree.lift(each, branch) for each in group if each in inside)}
    return is_all and isinstance(last, cst.If) and all(_is_whole(tree, each, group, backwards) for each in blocks(last))


def always_runs(statement: Statement, group: Collection[Statement]) -> bool:
    """Whether some of a group, as the steps of optimizers, has run for certain once a statement is done."""
    if statement in group:
        return chosen_in(statement) is None
    if isinstance(statement, (cst.With, cst.For, cst.While)):  # `for optimizer in optimizers: optimizer.step()`
        return any(always_runs(each, group) for each in _top(statement.body))
    if isinstance(statement, cst.If):
        branches = blocks(statement)
        node: cst.If | cst.Else | None = statement
        while isinstance(node, cst.If):
            node = node.orelse
        return node is not None and all(any(always_runs(s, group) for s in statements(b)) for b in branches)
    return False


def _top(block: cst.BaseSuite) -> list[Statement]:
    assert isinstance(block, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return list(statements(block))
