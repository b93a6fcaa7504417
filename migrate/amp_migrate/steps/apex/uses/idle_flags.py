"""Names that say whether Apex could be imported, once nothing but what insists on that asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product

import libcst as cst

from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex.uses.amp_tests import answered_by
from amp_migrate.steps.apex.uses.apex_guards import only_tells
from amp_migrate.steps.apex.uses.import_flags import says_apex_is_there
from amp_migrate.trees.nodes import Statement, block_of, is_constant, statements, walk

_ACTS = (cst.Call, cst.Await, cst.Yield, cst.NamedExpr)


def with_idle_flags(
    project: Project, file: File, guard: cst.Try, flags: Iterable[Statement], is_gone: Callable[[cst.Name], bool]
) -> list[Statement] | None:
    """What goes with a guard that sets only such names, and they are asked for no more; None where one still is.

    Those that a package has are for others.

    Args:
        guard: the `try` that Apex was imported in.
        flags: what else stands in it.
        is_gone: whether a use of a name goes with what it stands in.
    """
    going: dict[Statement, None] = {}
    for statement in flags:
        target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
        if not isinstance(target, cst.Name) or not says_apex_is_there(file, target):
            return None
        home = file.scopes.of(target).find(target.value)
        is_public = home is file.scopes.module and file.name.rpartition("/")[2] == "__init__.py"
        if home is None or home.is_class or is_public or is_exported(project, file, target.value):
            return None
        for use in file.uses.get(target.value, ()):
            if not isinstance(use, cst.Name) or file.scopes.of(use).find(use.value) is not home or is_gone(use):
                continue
            asking = file.tree.statement(use)
            is_given = isinstance(file.tree.parents[use], cst.AssignTarget)
            if not (is_given or insists_on_flag(file, asking)):
                return None
            if guard not in file.tree.ancestors(asking):
                going[asking] = None
    return [*going]


def insists_on_flag(file: File, statement: Statement) -> bool:
    """Whether a statement does nothing where Apex is there, and complains elsewhere: `assert not fp16 or HAS_APEX`."""
    if isinstance(statement, cst.Assert):
        return _is_always(file, statement.test, truth=True)
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return False
    return all(map(only_tells, statements(block_of(statement)))) and _is_always(file, statement.test, truth=False)


def _is_always(file: File, test: cst.BaseExpression, *, truth: bool) -> bool:
    """Whether a test that does nothing by itself has one answer where Apex is there, whatever else it asks."""
    others: dict[str, bool] = {}
    answer = partial(_answer, file, others)
    answered_by(test, answer)  # which notes the other questions
    ways = product((False, True), repeat=len(others))
    return not any(isinstance(each, _ACTS) for each in walk(test)) and all(
        answered_by(test, partial(_answer, file, dict(zip(others, way, strict=True)))) is truth for way in ways
    )


def _answer(file: File, others: dict[str, bool], asked: cst.BaseExpression) -> bool:
    if isinstance(asked, cst.Name) and is_constant(asked, "True"):
        return True
    return says_apex_is_there(file, asked) or others.setdefault(file.tree.code(asked), False)
