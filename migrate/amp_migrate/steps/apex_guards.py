"""Statements that are there for the sake of `apex.amp` alone: imports, and what complains where Apex is missing."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.scopes import dotted
from amp_migrate.steps.apex_functions import is_needless
from amp_migrate.tables.apex_names import AMP
from amp_migrate.trees.tree import Statement, is_constant, statements


def is_apex_import(file: File, statement: Statement) -> bool:
    """Whether a statement only brings in `apex.amp`, by itself or in a `try` that complains where it is missing.

    A registration that native AMP does without belongs to it.
    """
    if isinstance(statement, cst.ImportFrom):
        names = [] if isinstance(statement.names, cst.ImportStar) else statement.names
        return dotted(statement.module) == "apex" and [dotted(alias.name) for alias in names] == ["amp"]
    if isinstance(statement, cst.Import):
        return [dotted(alias.name) for alias in statement.names] in (["apex"], [AMP])
    if isinstance(statement, cst.Try) and statement.orelse is None and statement.finalbody is None:
        body = statements(_block(statement.body))
        handled = [each for handler in statement.handlers for each in statements(_block(handler.body))]
        return all(is_apex_import(file, each) for each in body) and all(complains(each) for each in handled)
    return is_needless(file, statement)


def complains(statement: Statement) -> bool:
    """Whether a statement of an `except` only tells that Apex is missing: raises, prints, passes, sets amp to None."""
    if isinstance(statement, cst.Assign):
        targets = [dotted(each.target) for each in statement.targets]
        return targets == ["amp"] and is_constant(statement.value, "None")
    return isinstance(statement, (cst.Raise, cst.Pass, cst.Expr))


def _block(body: cst.BaseSuite) -> cst.IndentedBlock | cst.SimpleStatementSuite:
    assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    return body
