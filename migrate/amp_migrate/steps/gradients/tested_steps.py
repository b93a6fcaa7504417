"""Where a test of gradients decides whether an optimizer steps: `if norm < limit: optimizer.step()`.

Gradients that overflow fail such a test. A scale that is updated behind the step alone would never come down, so they
are unscaled before the test, and the scale is updated behind it, whatever it has come to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.steps.gradients.gradient_uses import uses_gradients
from amp_migrate.steps.model.training_step import Backward, OptimizerStep
from amp_migrate.steps.statements.data_flow import reads, statement_reads, writes
from amp_migrate.trees.nodes import Statement, header, inner_statements


def with_tests(
    file: File, roles: Roles, steps: Sequence[OptimizerStep], backwards: Sequence[Backward]
) -> list[OptimizerStep]:
    """The steps, each with the outermost test of gradients that decides about it for its statement."""
    around = frozenset(node for each in backwards for node in [each.statement, *file.tree.ancestors(each.statement)])
    found: dict[tuple[Statement, str], OptimizerStep] = {}
    for step in steps:
        statement = _deciding(file, roles, step.statement, around)
        found.setdefault((statement, file.tree.code(step.optimizer)), replace(step, statement=statement))
    return list(found.values())


def _deciding(file: File, roles: Roles, step: Statement, around: Collection[cst.CSTNode]) -> Statement:
    found = inner = step
    while isinstance(parent := file.tree.parents.get(file.tree.block(inner)), (cst.If, cst.Else)):
        inner = file.tree.statement(parent)
        if not isinstance(inner, cst.If) or inner in around:
            break
        if _asks_gradients(file, roles, inner, around):
            found = inner
    return found


def _asks_gradients(file: File, roles: Roles, test: cst.If, around: Collection[cst.CSTNode]) -> bool:
    """Whether an `if` goes by what is read of gradients above it, behind all that goes backward."""
    names: set[str] = set()
    siblings = file.tree.siblings(test)
    for statement in siblings[: siblings.index(test)]:
        if statement in around:
            names.clear()
            continue
        for each in (statement, *inner_statements(statement)):
            if uses_gradients(file, roles, each) or statement_reads(each) & names:
                names |= writes(each)
    return bool(reads(header(test)) & names)
