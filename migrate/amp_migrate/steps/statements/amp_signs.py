"""Signs that code uses native AMP already, so that nobody adds a second one."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.tables.torch_names import AUTOCAST, GRAD_SCALER
from amp_migrate.trees.nodes import Block, find, is_constant, walk


def uses_amp(file: File, body: Block, function: cst.FunctionDef | None) -> bool:
    """Whether a body casts or scales by itself: names autocast or a scaler, or enters a context that stands for one."""
    if function is not None and any(names_amp(file, each) for each in function.decorators):
        return True
    for call in find(body, cst.Call):
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else None
        if method == "scale_loss" or (method == "unscale_" and call.args) or _scales_loss(file, body, call):
            return True
    if names_amp(file, body):
        return True
    return any(_stands_for_amp(file, item.item) for with_ in find(body, cst.With) for item in with_.items)


def switched_off(file: File, body: Block) -> cst.Call | None:
    """The first call of autocast in a body, if all that it has of AMP is autocast that its text switches off."""
    return _first_of_all(file, body, is_switched_off)


def unused_scaler(file: File, body: Block) -> cst.Call | None:
    """The first scaler that a body makes, if all that it has of AMP is scalers whose names nothing else says."""
    return _first_of_all(file, body, _is_unused)


def _first_of_all(file: File, body: Block, fits: Callable[[File, cst.Call], bool]) -> cst.Call | None:
    """The first call of autocast or a scaler in a body, if each of their names but in imports is in one that fits."""
    uses = (each for each in walk(body) if _names_one(file, each, AUTOCAST | GRAD_SCALER))
    around = [file.tree.parents[each] for each in uses]
    around = [each for each in around if not isinstance(each, (cst.ImportAlias, cst.AsName))]
    calls = [each for each in around if isinstance(each, cst.Call) and fits(file, each)]
    return calls[0] if calls and len(calls) == len(around) else None


def _is_unused(file: File, made: cst.Call) -> bool:
    statement = file.tree.parents[made]
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, cst.Name) or not file.names.meanings(made.func) & GRAD_SCALER:
        return False
    return all(isinstance(file.tree.parents[each], cst.AssignTarget) for each in file.uses.get(target.value, ()))


def is_switched_off(file: File, call: cst.Call) -> bool:
    """Whether a region or scaler is made that is off in so many words."""
    return is_constant(file.names.argument(call, "enabled"), "False")


def _scales_loss(file: File, body: Block, call: cst.Call) -> bool:
    """Whether a call is `scale` of a scaler, not of a picture: by its name, or because its result goes backward."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "scale" and call.args):
        return False
    if "scaler" in (dotted(call.func.value) or "").lower():
        return True
    parent = file.tree.parents[call]
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "backward"
    name = dotted(parent.targets[0].target) if isinstance(parent, cst.Assign) else None
    return name is not None and any(dotted(each.func) == f"{name}.backward" for each in find(body, cst.Call))


def is_scaled(loss: cst.BaseExpression) -> bool:
    """Whether the receiver of a backward is `scaler.scale(loss)`."""
    return isinstance(loss, cst.Call) and isinstance(loss.func, cst.Attribute) and loss.func.attr.value == "scale"


def names_amp(file: File, node: cst.CSTNode) -> bool:
    """Whether some code names autocast or GradScaler, old or new."""
    return names_any(file, node, AUTOCAST | GRAD_SCALER)


def names_any(file: File, node: cst.CSTNode, wanted: frozenset[str]) -> bool:
    """Whether some code names one of the things with these full names."""
    return any(_names_one(file, each, wanted) for each in walk(node))


def _names_one(file: File, node: cst.CSTNode, wanted: frozenset[str]) -> bool:
    return type(node) in (cst.Name, cst.Attribute) and not wanted.isdisjoint(file.names.meanings(node))


def foreign_autocast(project: Project, body: Block, file: File) -> cst.BaseExpression | None:
    """A context that is an autocast by its name, and made by code that cannot be seen, in a dtype of its own."""
    for with_ in find(body, cst.With):
        for item in with_.items:
            context = _context(item.item)
            if _is_called_amp(context) and not names_any(file, context, AUTOCAST) and not _is_amp(file, context):
                made = project.definition(file, context)
                if made is None or not names_any(*made, AUTOCAST):
                    return context
    return None


def _stands_for_amp(file: File, item: cst.BaseExpression) -> bool:
    """Whether the context of a `with` may be an autocast made elsewhere: `with ctx:`, `with self.cast():`."""
    context = _context(item)
    is_attribute = (dotted(context) or "").startswith("self.") and file.tree.owner_class(context) is not None
    return _is_amp(file, context) or (_is_called_amp(context) and not is_attribute)


def _context(item: cst.BaseExpression) -> cst.BaseExpression:
    return item.func if isinstance(item, cst.Call) else item


def _is_amp(file: File, context: cst.BaseExpression) -> bool:
    """Whether a name, or an attribute of `self`, is given something that names autocast."""
    path = dotted(context)
    if path is None:
        return False
    owner = file.tree.owner_class(context)
    if path.startswith("self.") and owner is not None:
        return any(names_amp(file, node) for node in file.class_attribute(owner, path))
    return any(each.value is not None and names_amp(file, each.value) for each in file.scopes.of(context).lookup(path))


def _is_called_amp(context: cst.BaseExpression) -> bool:
    path = (dotted(context) or "").lower()
    return "autocast" in path or path.endswith("amp")
