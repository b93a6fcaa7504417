"""`amp.initialize` in a loop, for models that one behind it trains: their scaler is made before the loop, once.

    for name in names:                                      scaler = torch.amp.GradScaler("cuda")
        nets[name], opts[name] = amp.initialize(...)        for name in names:
    for batch in loader:                                        ...
        ...

The scale of the latest call was that of all, in Apex too. Where all that uses a scaler stands in the loop with the
call, as in one over folds, each round has its own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import libcst as cst

from amp_migrate.steps.apex.initialize.branches import is_said_before
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.trees.nodes import LOOP_TYPES


def before_loops(initialize: Initialize) -> Initialize | None:
    """An initialization whose scaler is made before the outermost loop round it; None where it cannot be."""
    tree, home = initialize.file.tree, initialize.home
    if home not in tree.parents or initialize.statement not in tree.parents:
        return None
    around = takewhile(lambda each: not isinstance(each, (cst.FunctionDef, cst.ClassDef)), tree.ancestors(home))
    loops = [each for each in around if isinstance(each, LOOP_TYPES)]
    codes = [*initialize.switch, *filter(None, [initialize.init_scale]), *(code for _, code in initialize.growth)]
    if not loops or not is_said_before(initialize.file, loops[-1], codes):
        return None
    gone = home if initialize.replaces_home and not initialize.rebinds else initialize.statement
    return replace(initialize, home=loops[-1], statement=gone, replaces_home=False)
