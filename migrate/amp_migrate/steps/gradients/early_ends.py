"""Where an iteration ends early, behind a step and before its `scaler.update()`: `if i % 2: return`.

The scale is updated there, too: what the rest of a whole iteration goes backward with is the scale it began with. So it
is behind `unscale_()`, where a batch is skipped for its gradients (`if not torch.isfinite(norm): continue`): they may
be unscaled again only behind an update, and a scale that has overflowed comes down by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from amp_migrate.steps.gradients.updates import always_runs
from amp_migrate.steps.model.training_step import GradientUse, OptimizerStep
from amp_migrate.trees.nodes import Block, Statement, nested_statements
from amp_migrate.trees.tree import Tree


def early_ends(
    tree: Tree,
    body: Block,
    steps: Sequence[OptimizerStep],
    uses: Sequence[GradientUse],
    updates: Collection[Statement],
) -> Iterator[Statement]:
    """The statements that end an iteration in which an optimizer has surely stepped and the scale is not updated.

    So are those that go on with the next one behind gradients that are unscaled for sure.

    Args:
        updates: the statements behind which it is.
    """
    unscaled = [each.before for each in uses if each.test is None]
    for each in nested_statements(body):
        if isinstance(each, (cst.Return, cst.Continue, cst.Break)) and _is_left_out(tree, each, updates):
            # What leaves a loop for good, or a function out of one, has nothing behind it that goes backward.
            goes_on = isinstance(each, cst.Continue) or tree.loop(each) is None
            looked_at = unscaled if goes_on else []
            stepped = _latest(tree, each, [*looked_at, *(step.statement for step in steps)], looked_at)
            updated = _latest(tree, each, updates)
            if stepped is not None and (updated is None or tree.order[updated] < tree.order[stepped]):
                yield each


def _is_left_out(tree: Tree, end: Statement, updates: Collection[Statement]) -> bool:
    """Whether an update would have come behind a statement that leaves its function or its loop."""
    loop = None if isinstance(end, cst.Return) else tree.loop(end)
    later = (each for each in updates if tree.order[each] > tree.order[end])
    return any(loop is None or loop in tree.ancestors(each) for each in later)


def _latest(
    tree: Tree, end: Statement, wanted: Collection[Statement], begun: Collection[Statement] = ()
) -> Statement | None:
    """The latest statement that surely runs some of others before one, in the loop that this one leaves.

    Args:
        begun: those that count as soon as they begin, be it that the one is in them.
    """
    loop, current = None if isinstance(end, cst.Return) else tree.loop(end), end
    while True:
        siblings = tree.siblings(current)
        before = [each for each in siblings[: siblings.index(current)] if always_runs(each, wanted)]
        before += [current] if current in begun else []
        holder = tree.parents.get(tree.block(current))
        if before or holder in (None, loop) or isinstance(holder, cst.FunctionDef):
            return before[-1] if before else None
        current = tree.statement(holder)
