"""Modules that a file makes for itself: what is cast for a preparation elsewhere is none of them."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.objects import handed_back
from amp_migrate.analysis.roles import Roles
from amp_migrate.tables.torch_names import HANDS_BACK


def nowhere(file: File, call: cst.Call) -> bool:
    """What Apex did by functions that it cast in the whole process: no module computed in float32 beside it."""
    return False


def runs_module_kept_apart(roles: Roles, file: File, call: cst.Call) -> bool:
    """Whether a call runs a module that its function makes and hands to nobody, which could prepare it."""
    func = call.func
    receiver = func.value if isinstance(func, cst.Attribute) and not roles.is_module(file, func) else func
    if not isinstance(receiver, cst.Name):
        return False
    bindings = roles.bindings(file, receiver)
    values = [each.value for each in bindings if each.kind is BindingKind.ASSIGNMENT and each.value is not None]
    made = [value for each in values if dotted(value := handed_back(each)) != receiver.value]
    is_made = made and all(isinstance(each, cst.Call) and roles.is_module(file, each) for each in made)
    if not is_made or len(values) != len(bindings):
        return False
    scope = file.scopes.of(receiver).find(receiver.value)
    names = (each for each in file.uses[receiver.value] if isinstance(each, cst.Name))
    own = (each for each in names if file.scopes.of(each).find(each.value) is scope)
    return all(_stays(file, each) for each in own)


def _stays(file: File, name: cst.Name) -> bool:
    """Whether a name is only given a value, called, or asked for something: nobody gets what it stands for."""
    parents = file.tree.parents
    parent = parents[name]
    if isinstance(parent, cst.AssignTarget):
        return True
    node: cst.CSTNode = name
    while isinstance(parent, cst.Attribute) and parent.attr.value in HANDS_BACK:  # `denoiser = denoiser.cuda()`
        node, parent = parents[parent], parents[parents[parent]]
    if node is not name:
        is_back = isinstance(parent, cst.Assign) and all(
            isinstance(each.target, cst.Name) and each.target.value == name.value for each in parent.targets
        )
        if is_back or isinstance(parent, cst.Expr):
            return True
    return isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node)
