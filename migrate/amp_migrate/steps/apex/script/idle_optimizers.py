"""Optimizers that a script prepares for Apex and never steps: it only evaluates what another one trains."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.exports import is_exported
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.uses.apex_calls import amp_name
from amp_migrate.steps.scaler.optimizer_origin import displayed

_STATE = ("state_dict", "load_state_dict")
_SCHEDULERS = "torch.optim.lr_scheduler."


def is_idle_optimizer(project: Project, initialize: Initialize) -> bool:
    """Whether nobody steps what a call prepares: it is made here, prepared, scheduled, saved, and no more."""
    if initialize.optimizers is None:
        return False
    return all(_is_idle(project, initialize, each) for each in displayed(initialize.optimizers))


def _is_idle(project: Project, initialize: Initialize, optimizer: cst.BaseExpression) -> bool:
    file, name = initialize.file, optimizer.value if isinstance(optimizer, cst.Name) else ""
    home = file.scopes.of(optimizer).find(name)
    if home is None or (home is file.scopes.module and is_exported(project, file, name)):
        return False
    made = [each for each in home.bindings[name] if file.tree.statement(each.node) is not initialize.statement]
    if not all(isinstance(each.value, cst.Call) for each in made):  # which somebody else has, too
        return False
    uses = [each for each in file.uses.get(name, ()) if file.scopes.of(each).find(name) is home]
    return all(_is_given(file, each) or _is_harmless(file, each) for each in uses)


def _is_given(file: File, use: cst.CSTNode) -> bool:
    """Whether a name is not read, but given a value: by itself, or with others."""
    parent = file.tree.parents[use]
    while isinstance(parent, (cst.Element, cst.Tuple, cst.List)):
        parent = file.tree.parents[parent]
    return isinstance(parent, cst.AssignTarget)


def _is_harmless(file: File, use: cst.CSTNode) -> bool:
    parent = file.tree.parents[use]
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in _STATE
    while isinstance(parent, (cst.Element, cst.List, cst.Arg)):
        parent = file.tree.parents[parent]
    if not isinstance(parent, cst.Call):
        return False
    return amp_name(file, parent.func) == "initialize" or file.names.callee(parent).startswith(_SCHEDULERS)
