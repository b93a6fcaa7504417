"""`amp.init()`, which patched the process before there was `amp.initialize`.

It gave back a handle, which scaled the losses of training; where that is all that is asked of it, or nothing is, it is
`apex.amp` by another name.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.initialize.branches import place_of
from amp_migrate.steps.apex.initialize.initialize_calls import (
    Initialize,
    growth_of,
    notes_on_scale,
    scale_to_begin_with,
)
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_name
from amp_migrate.tables.apex_names import INIT
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.own_calls import named_arguments

_NOTE = "amp.init put the whole process into mixed precision: forwards that cannot be seen from here run in float32 now"


def read_inits(file: File) -> Iterator[Initialize]:
    """The calls of `amp.init` in a file whose handle only scales losses, as initializations without an optimizer."""
    for call in amp_calls(file, "init"):
        arguments = named_arguments(call, INIT)
        uses = None if arguments is None else _uses(file, call)
        if arguments is None or uses is None or not all(amp_name(file, each) == "scale_loss" for each in uses):
            continue
        growth = growth_of(file, arguments.get("loss_scale"))
        statement = file.tree.statement(call)
        home, conditions = place_of(file, statement, None)
        enabled = arguments.get("enabled")
        is_always = enabled is None or is_constant(enabled, "True")
        yield Initialize(
            file=file,
            call=call,
            statement=statement,
            home=home,
            replaces_home=home is statement,
            switch=conditions if is_always or enabled is None else (*conditions, file.tree.code(enabled)),
            init_scale=scale_to_begin_with(file, arguments.get("loss_scale")),
            setting=None,
            optimizers=None,
            rebinds=(),
            notes=tuple(notes_on_scale(growth)) if uses else (_NOTE,),
            what="amp.init",
            growth=growth,
        )


def _uses(file: File, call: cst.Call) -> list[cst.CSTNode] | None:
    """What is asked of the handle that a call gives; None where that is kept in a way that is not understood."""
    statement = file.tree.parents[call]
    if isinstance(statement, cst.Expr):
        return []
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    path = None if target is None else dotted(target)
    if target is None or path is None or path.rpartition(".")[0] not in ("", "self"):
        return None
    uses = (each for each in file.uses.get(path.rpartition(".")[2], ()) if dotted(each) == path)
    return [file.tree.parents[each] for each in uses if not isinstance(file.tree.parents[each], cst.AssignTarget)]
