"""The parameters of an optimizer, as `amp.master_params` gave them: by the model's name where that is known."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import single_parameters
from amp_migrate.analysis.bindings import BindingKind, dotted
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.roles import Roles
from amp_migrate.trees.nodes import find

_OPTIMIZERS = ("torch.optim.", "apex.optimizers.")


def parameters_of(project: Project, roles: Roles, file: File, optimizer: cst.BaseExpression) -> str:
    """The parameters of an optimizer: `model.parameters()` where it was made from just that."""
    made_from = _made_from(project, roles, file, optimizer)
    if made_from is not None:
        return made_from
    return all_parameters(file, optimizer)


def all_parameters(file: File, optimizer: cst.BaseExpression) -> str:
    """The parameters of an optimizer, whatever it was made from."""
    return f'(p for group in {file.tree.code(optimizer)}.param_groups for p in group["params"])'


def standing_for(file: File, call: cst.Call, given: str) -> cst.BaseExpression:
    """What the code of an optimizer's parameters is written for: a call of `amp.master_params`, or a choice of its own.

    `amp.master_params(optimizer) if args.fp16 else model.parameters()` is the same either way then.
    """
    around = file.tree.parents[call]
    if not isinstance(around, cst.IfExp) or any(True for _ in find(around.test, cst.Call)):
        return call
    other = around.orelse if around.body is call else around.body
    return around if file.tree.code(other) == given else call


def _made_from(project: Project, roles: Roles, file: File, optimizer: cst.BaseExpression) -> str | None:
    path = dotted(optimizer)
    scope = None if path is None else file.scopes.of(optimizer).find(path)
    if path is None or scope is None:
        return None
    is_own = path.startswith("self.")
    bindings = roles.bindings(file, optimizer) if is_own else scope.bindings.get(path, [])
    if (
        not is_own
        and all(b.kind is BindingKind.PARAMETER for b in bindings)
        and isinstance(scope.node, cst.FunctionDef)
    ):
        return _made_from_argument(project, roles, file, scope.node, path)
    made = [
        each.value
        for each in bindings
        if isinstance(each.value, cst.Call)
        and file.names.callee(each.value).startswith(_OPTIMIZERS)
        and each.value.args
    ]
    found = {_own_parameters(file, each) for each in made}  # in branches it may be made of others
    code = found.pop() if len(found) == 1 else None
    return code if code is not None and (not is_own or code.startswith("self.")) else None


def _own_parameters(file: File, made: cst.Call) -> str | None:
    """`model.parameters()`, where that is all that an optimizer is made of."""
    first = made.args[0].value
    if not isinstance(first, cst.Call) or first.args or not isinstance(first.func, cst.Attribute):
        return None
    return file.tree.code(first) if first.func.attr.value == "parameters" else None


def _made_from_argument(project: Project, roles: Roles, file: File, node: cst.FunctionDef, name: str) -> str | None:
    """The same inside a function that is given both the optimizer and the model it was made from.

    By a method of an object that the callers are given themselves, it is not said by the model's name: what the method
    is called on, and so what it gets, is more than can be shown.
    """
    function = project.reference(file, node)
    found: set[str | None] = set()
    for site in project.call_sites(function) or ():
        owner = site.call.func.value if isinstance(site.call.func, cst.Attribute) and function.owner else None
        if owner is not None and any(b.kind is BindingKind.PARAMETER for b in object_bindings(site.file, owner)):
            return None
        value = function.given(site.call, name)
        outer = None if value is None else _made_from(project, roles, site.file, value)
        model = None if outer is None else outer.removesuffix(".parameters()")
        names = (each.name.value for each in single_parameters(node) if model is not None)
        found.add(next((each for each in names if dotted(function.given(site.call, each)) == model), None))
    only = next(iter(found)) if len(found) == 1 else None
    return None if only is None else f"{only}.parameters()"
