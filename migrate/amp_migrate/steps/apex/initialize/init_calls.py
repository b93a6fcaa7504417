"""`amp.init()`, which patched the process for inference before there was `amp.initialize`.

It gave back a handle, which scaled the losses of training; only where nobody uses that is there nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.initialize.branches import place_of
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.uses.apex_calls import amp_calls
from amp_migrate.tables.apex_names import INIT
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.own_calls import named_arguments

_NOTE = "amp.init put the whole process into mixed precision: forwards that cannot be seen from here run in float32 now"


def read_inits(file: File) -> Iterator[Initialize]:
    """The calls of `amp.init` in a file whose handle nobody uses, as initializations without an optimizer."""
    for call in amp_calls(file, "init"):
        arguments = named_arguments(call, INIT)
        if arguments is None or not _is_unused(file, call):
            continue
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
            init_scale=None,
            setting=None,
            optimizers=None,
            rebinds=(),
            notes=(_NOTE,),
            what="amp.init",
        )


def _is_unused(file: File, call: cst.Call) -> bool:
    statement = file.tree.parents[call]
    if isinstance(statement, cst.Expr):
        return True
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, cst.Name):
        return False
    return all(isinstance(file.tree.parents[use], cst.AssignTarget) for use in file.uses.get(target.value, ()))
