"""`amp.initialize` in a loop, for models that one behind it trains: their scaler is made before the loop, once.

    for name in names:                                      scaler = torch.amp.GradScaler("cuda")
        nets[name], opts[name] = amp.initialize(...)        for name in names:
    for batch in loader:                                        ...
        ...

The scale of the latest call was that of all, in Apex too. Where all that uses a scaler stands in the loop with the
call, as in one over folds, each round has its own, which is made where the first of that begins. So is one that a call
above restores: `self.resume()`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.initialize.branches import is_said_before
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.trees import build
from amp_migrate.trees.nodes import LOOP_TYPES, Block, Statement, block_of, walk
from amp_migrate.trees.tree import Tree

_STORING = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Element)
_AS_A_WHOLE = frozenset({"setattr", "__dict__", "vars"})  # by which attributes are set that nobody names


def further_up(initialize: Initialize, late: Collection[cst.CSTNode]) -> Initialize | None:
    """An initialization whose scaler is made before code that uses it: beside it, else before the outermost loop.

    None where it can be made in neither place.
    """
    tree, home = initialize.file.tree, initialize.home
    if not late or home not in tree.parents or initialize.statement not in tree.parents:
        return None
    around = takewhile(lambda each: not isinstance(each, (cst.FunctionDef, cst.ClassDef)), tree.ancestors(home))
    loops = [each for each in around if isinstance(each, LOOP_TYPES)]
    codes = _codes(initialize)
    body = block_of(loops[0]) if loops else tree.block(home)
    for passed in (_since(tree, home, late, body), loops[-1:]):
        if passed and all(is_said_before(initialize.file, each, codes) for each in passed):
            gone = home if initialize.replaces_home and not initialize.rebinds else initialize.statement
            return replace(initialize, home=passed[0], statement=gone, replaces_home=False)
    return None


def may_be_set_by_calls(files: Iterable[File], initialize: Initialize) -> bool:
    """Whether another function may change what an initialization says: it may mean something else before its call."""
    said = [each for code in _codes(initialize) for each in walk(build.expression(code))]
    attributes = {each.attr.value for each in said if isinstance(each, cst.Attribute)}
    names = {each.value for each in said if isinstance(each, cst.Name)}
    own = initialize.file.tree.function(initialize.home)
    for file in files:
        tree = file.tree
        declared = [item for each in tree.every(cst.Global) for item in each.names]
        declared += (item for each in tree.every(cst.Nonlocal) for item in each.names)
        if any(item.name.value in names for item in declared):
            return True
        if attributes and not _AS_A_WHOLE.isdisjoint(file.uses):
            return True
        uses = (each for name in attributes for each in file.uses.get(name, ()) if isinstance(each, cst.Attribute))
        if any(isinstance(tree.parents[each], _STORING) and tree.function(each) is not own for each in uses):
            return True
    return False


def _codes(initialize: Initialize) -> list[str]:
    """What the making of a scaler asks."""
    return [*initialize.switch, *filter(None, [initialize.init_scale]), *(code for _, code in initialize.growth)]


def _since(tree: Tree, home: Statement, late: Collection[cst.CSTNode], body: Block) -> Sequence[Statement]:
    """The statements of a block from the first with late code in it to the one before what initializes."""
    if not all(body in tree.ancestors(each) for each in late):
        return ()
    first, last = min((tree.lift(each, body) for each in late), key=lambda e: tree.order[e]), tree.lift(home, body)
    run = tree.siblings(last)
    return run[run.index(first) : run.index(last) + (last is not home)]
