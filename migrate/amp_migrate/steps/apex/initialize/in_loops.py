"""`amp.initialize` in a loop, for models that one behind it trains: their scaler is made before the loop, once.

    for name in names:                                      scaler = torch.amp.GradScaler("cuda")
        nets[name], opts[name] = amp.initialize(...)        for name in names:
    for batch in loader:                                        ...
        ...

The scale of the latest call was that of all, in Apex too. Where all that uses a scaler stands in the loop with the
call, as in one over folds, each round has its own, which is made where the first of that begins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

import libcst as cst

from amp_migrate.steps.apex.initialize.branches import is_said_before
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.trees.nodes import LOOP_TYPES, Block, Statement, block_of
from amp_migrate.trees.tree import Tree


def further_up(initialize: Initialize, late: Collection[cst.CSTNode]) -> Initialize | None:
    """An initialization whose scaler is made before code that uses it: in its loop, else before the outermost one.

    None where it can be made in neither place.
    """
    tree, home = initialize.file.tree, initialize.home
    if home not in tree.parents or initialize.statement not in tree.parents:
        return None
    around = takewhile(lambda each: not isinstance(each, (cst.FunctionDef, cst.ClassDef)), tree.ancestors(home))
    loops = [each for each in around if isinstance(each, LOOP_TYPES)]
    codes = [*initialize.switch, *filter(None, [initialize.init_scale]), *(code for _, code in initialize.growth)]
    for passed in (_since(tree, home, late, block_of(loops[0])), loops[-1:]) if loops else ():
        if passed and all(is_said_before(initialize.file, each, codes) for each in passed):
            gone = home if initialize.replaces_home and not initialize.rebinds else initialize.statement
            return replace(initialize, home=passed[0], statement=gone, replaces_home=False)
    return None


def _since(tree: Tree, home: Statement, late: Collection[cst.CSTNode], body: Block) -> Sequence[Statement]:
    """The statements of a loop's body from the first with late code in it to the one before what initializes."""
    if not all(body in tree.ancestors(each) for each in late):
        return ()
    first, last = min((tree.lift(each, body) for each in late), key=lambda e: tree.order[e]), tree.lift(home, body)
    run = tree.siblings(last)
    return run[run.index(first) : run.index(last) + (last is not home)]
