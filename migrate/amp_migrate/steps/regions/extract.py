"""Forwards inside a loss that autocast refuses: `bce(model(x), y)` has to become two statements.

The forward's result gets a name in a region of its own; the loss stays outside and reads it in float32.
"""

from __future__ import annotations

from itertools import takewhile

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.names.result_names import result_name
from amp_migrate.analysis.roles import Roles
from amp_migrate.analysis.values.sigmoids import logits
from amp_migrate.steps.model.training_step import Extraction
from amp_migrate.trees.nodes import Statement, find, walk

# Code below one of these runs not at all, later, or more than once: nothing can be taken out of it.
_ELSEWHEN = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def extractions(file: File, roles: Roles, statement: Statement, banned: list[cst.Call]) -> list[Extraction] | None:
    """What to take out of a statement whose losses must stay outside a region; None where that cannot be done."""
    if not isinstance(statement, cst.BaseSmallStatement):
        return None
    found: list[Extraction] = []
    taken: set[cst.CSTNode] = set()
    for loss in banned:
        around = takewhile(lambda each: each is not statement, file.tree.ancestors(loss))
        if any(isinstance(each, _ELSEWHEN) for each in around):
            return None
        for arg in loss.args:
            forwards = [call for call in find(arg.value, cst.Call) if roles.runs_weights(file, call)]
            if not forwards:
                continue
            if arg.star:
                return None
            # A sigmoid round the forward stays with the loss, in float32.
            value = logits(roles, file, arg.value) or arg.value
            found.append(Extraction(statement, value, result_name(file, statement, forwards[0], len(found))))
            taken.update(walk(arg.value))
    left = [c for c in find(statement, cst.Call) if c not in taken and c not in banned and roles.runs_weights(file, c)]
    return None if left else found
