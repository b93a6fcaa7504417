"""Flags of Apex that are set only where native AMP is not set up instead, in the `else` of an `if`.

Hugging Face's trainers choose so: `if backend == "amp": self.use_amp = True ... else: self.use_apex = True`. Once the
`if` always sets native AMP up, the flag is never set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex.beside.choice import Choice, goes_natively
from amp_migrate.steps.apex.initialize.branches import branch_of
from amp_migrate.trees.nodes import Statement, block_of, is_constant, nested_statements, parts_of


def find_flag(project: Project, file: File, statement: Statement) -> Choice | None:
    """The choice by such a flag, which a step or an initialization by Apex is asked by; None where there is none."""
    for around in file.tree.ancestors(statement):
        for test in parts_of(around.test) if isinstance(around, cst.If) else ():
            flag = dotted(test)
            given = [] if flag is None else object_bindings(file, test)
            true = [cast(Statement, each.node) for each in given if is_constant(each.value, "True")]
            is_plain = all(is_constant(each.value, "True") or is_constant(each.value, "False") for each in given)
            chains = [_set_beside(file, each) for each in true]
            found = tuple((file, each) for each in chains if each is not None)
            if flag is None or not is_plain or not found or len(found) < len(chains):
                continue
            if not _is_given_elsewhere(project, file, flag.rpartition(".")[2]):
                return Choice(flag, None, None, found)
    return None


def _set_beside(file: File, statement: Statement) -> cst.If | None:
    """The `if` with native AMP in it, in whose `else` a statement stands."""
    branch = branch_of(file, statement)
    if branch is None or branch.test is not None or len(branch.tests) != 1:
        return None
    return branch.chain if goes_natively(file, block_of(branch.chain)) else None


def _is_given_elsewhere(project: Project, file: File, word: str) -> bool:
    """Whether another file gives an attribute of that name a value."""
    others = (each for each in project.library.mentioning(word) if each is not file)
    return any(
        isinstance(each.tree.parents[node], cst.AssignTarget) for each in others for node in each.uses.get(word, ())
    )


def native_flags(always: Sequence[tuple[File, cst.If]]) -> Iterator[str]:
    """The flags that are set where native AMP is set up, as code."""
    for file, chain in always:
        for each in nested_statements(block_of(chain)):
            if isinstance(each, cst.Assign) and is_constant(each.value, "True"):
                yield from (file.tree.code(target.target) for target in each.targets)
