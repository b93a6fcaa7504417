"""A class that is handed on as a value, and where it is called in the end: `amp_autocast = torch.cuda.amp.autocast`.

Whoever calls it knows the old arguments. `functools.partial` gives the new class its device, which works with keywords
and not with positional arguments, so every call of every name that the value travels under has to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

import libcst as cst

from amp_migrate.analysis.calls import positional_names
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.scopes import dotted

_PARTIAL = "functools.partial"


def partial_call(file: File, node: cst.CSTNode) -> cst.Call | None:
    """The call `functools.partial(node, ...)` that a value is the first argument of."""
    arg = file.tree.parents[node]
    call = file.tree.parents[arg]
    if isinstance(arg, cst.Arg) and isinstance(call, cst.Call) and file.names.callee(call) == _PARTIAL:
        return call if call.args[0] is arg and not arg.star else None
    return None


class Followed(Enum):
    """How many uses of the name that a value is given are known to mean the value."""

    NOT = auto()
    PARTLY = auto()
    WHOLLY = auto()


def meant_by_name(project: Project, file: File, value: cst.CSTNode, full: str) -> Followed:
    """Whether the uses of the name that a value is given are found as uses of `full`, as in `autocast = amp.autocast`.

    Only a name that ends in the same word is looked for where `full` is.
    """
    name = _name_given(project, file, value)
    if name is None or name != full.rpartition(".")[2]:
        return Followed.NOT
    meanings = [file.names.meanings(use) for use in _uses(file, name) if use is not value]
    if not any(full in each for each in meanings):
        return Followed.NOT
    is_sure = all(each == {full} for each in meanings) and not project.takers(file, name)
    return Followed.WHOLLY if is_sure else Followed.PARTLY


def is_called_by_keyword(project: Project, file: File, value: cst.CSTNode) -> bool:
    """Whether a value goes under one name only, and all that is done with that name is to call it by keyword."""
    name = _name_given(project, file, value)
    return name is not None and all(
        _is_harmless(project, other, use, name)
        for other in project.library.mentioning(name)
        for use in _uses(other, name)
    )


def _uses(file: File, name: str) -> Iterator[cst.Name | cst.Attribute]:
    targets = (cst.AssignTarget, cst.AnnAssign)
    for use in file.uses.get(name, ()):
        parent = file.tree.parents[use]
        if not isinstance(parent, targets) or parent.target is not use:
            yield use


def _name_given(project: Project, file: File, value: cst.CSTNode) -> str | None:
    """The last word of what a value is assigned to; None where it goes elsewhere, or to several names."""
    node, parent = value, file.tree.parents[value]
    while isinstance(parent, cst.IfExp) and parent.test is not node:
        node, parent = parent, file.tree.parents[parent]
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        return _last(parent.targets[0].target)
    if isinstance(parent, cst.AnnAssign):
        return _last(parent.target)
    if isinstance(parent, cst.Param) and parent.default is node:
        return parent.name.value
    return _parameter(project, file, parent) if isinstance(parent, cst.Arg) else None


def _last(target: cst.BaseExpression) -> str | None:
    path = dotted(target)
    return None if path is None else path.rpartition(".")[2]


def _is_harmless(project: Project, file: File, use: cst.Name | cst.Attribute, name: str) -> bool:
    """Whether a use calls the value by keyword, asks whether there is one, or hands it on under the same name."""
    parent = file.tree.parents[use]
    if isinstance(parent, cst.Call):
        return all(arg.keyword is not None for arg in parent.args)
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
        return True
    return _name_given(project, file, use) == name


def _parameter(project: Project, file: File, arg: cst.Arg) -> str | None:
    """The parameter of a function of the project that an argument lands in."""
    call = file.tree.parents[arg]
    function = project.called(file, call) if isinstance(call, cst.Call) else None
    if function is None or not isinstance(call, cst.Call) or any(each.star for each in call.args):
        return None
    if arg.keyword is not None:
        params = function.node.params
        by_keyword = [each.name.value for each in (*params.params, *params.kwonly_params)]
        return arg.keyword.value if arg.keyword.value in by_keyword else None
    names = positional_names(function.node)[function.is_bound :]
    index = list(call.args).index(arg)
    return names[index] if index < len(names) else None
