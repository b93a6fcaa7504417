"""Names for what is taken out of an expression into a line of its own."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import Statement


def result_name(file: File, statement: Statement, call: cst.Call, index: int) -> str:
    """A name for what a module gives: `netD_output`, with a number where one statement has several.

    Args:
        statement: where it is read.
        call: what calls the module.
        index: how many have been taken out of the statement before.
    """
    func = call.func
    while isinstance(func, (cst.Call, cst.Subscript)):
        func = func.func if isinstance(func, cst.Call) else func.value
    base = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else "model"
    return free_name(file, statement, f"{base}_output", index)


def free_name(file: File, statement: Statement, base: str, index: int) -> str:
    """A name that nothing else in the scope of a statement has, with a number where one statement needs several."""
    scope = file.scopes.of(statement)
    candidates = [base, *(f"{base}_{count}" for count in range(2, 100))]
    return [name for name in candidates if scope.find(name) is None][index]
