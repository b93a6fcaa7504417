"""`try: from apex import amp ... except ImportError: from torch.cuda.amp import autocast`: native AMP without Apex."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted, import_source
from amp_migrate.analysis.files import File
from amp_migrate.steps.apex.uses.apex_guards import is_apex_import
from amp_migrate.tables.torch_names import AUTOCAST, GRAD_SCALER
from amp_migrate.trees.nodes import Block, Statement, block_of, find, nested_statements, statements

_NATIVE = AUTOCAST | GRAD_SCALER | {"torch.amp", "torch.cuda.amp"}


def native_handler(file: File, guard: cst.Try) -> Block | None:
    """What imports native AMP where Apex is missing, which nobody asks for any more; None for any other `try`."""
    handler = block_of(guard.handlers[0]) if len(guard.handlers) == 1 else None
    if handler is None or not any(is_apex_import(file, each) for each in statements(block_of(guard))):
        return None
    return handler if {full for each in nested_statements(handler) for full in _imported(each)} & _NATIVE else None


def does_more(guard: cst.Try) -> bool:
    """Whether such a `try` does more than import Apex, and say that it is there."""
    tried = [*statements(block_of(guard)), *(() if guard.orelse is None else statements(block_of(guard.orelse)))]
    return guard.finalbody is not None or not all(map(_is_for_apex, tried))


def _imported(statement: Statement) -> Iterator[str]:
    """The full names that a statement imports."""
    if isinstance(statement, cst.ImportFrom) and not isinstance(statement.names, cst.ImportStar):
        yield from (f"{import_source(statement)}.{dotted(alias.name)}" for alias in statement.names)
    elif isinstance(statement, cst.Import):
        yield from (dotted(alias.name) or "" for alias in statement.names)


def _is_for_apex(statement: Statement) -> bool:
    """Whether a statement imports something of Apex, or says that it is there: sets a flag, prints."""
    if isinstance(statement, (cst.Import, cst.ImportFrom)):
        return all(full.partition(".")[0] == "apex" for full in _imported(statement))
    is_plain = isinstance(statement, cst.Assign) and not any(True for _ in find(statement.value, cst.Call))
    return is_plain or isinstance(statement, (cst.Expr, cst.Pass))
