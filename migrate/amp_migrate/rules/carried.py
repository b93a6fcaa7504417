"""A class that is handed on as a value, and where it is called in the end: `amp_autocast = torch.cuda.amp.autocast`.

Whoever calls it knows the old arguments. `functools.partial` gives the new class its device, which works with keywords
and not with positional arguments, so every call of every name that the value travels under has to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

import libcst as cst

from amp_migrate.analysis.calls import positional_names
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.scopes import dotted
from amp_migrate.rules.places import is_only_tested, is_target

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


def meant_by_name(project: Project, file: File, value: cst.CSTNode, full: str, handed_on: frozenset[str]) -> Followed:
    """Whether the uses of the name that a value is given are found as uses of `full`, as in `autocast = amp.autocast`.

    Only a name that ends in the same word is looked for where `full` is.

    Args:
        handed_on: the names that other files take from this one, and whose uses there are found as well.
    """
    name = _name_given(project, file, value)
    if name is None or name != full.rpartition(".")[2]:
        return Followed.NOT
    meanings = [file.names.meanings(use) for use in _uses(file, name) if use is not value]
    if name not in handed_on and not any(full in each for each in meanings):
        return Followed.NOT
    is_seen = name in handed_on or not project.takers(file, name)
    is_sure = is_seen and all(each == {full} for each in meanings)
    return Followed.WHOLLY if is_sure else Followed.PARTLY


def is_called_by_keyword(project: Project, file: File, value: cst.CSTNode) -> bool:
    """Whether all that is done with a value, under every name that it goes by, is to call it by keyword."""
    values: list[tuple[File, cst.CSTNode]] = [(file, value)]
    followed: set[cst.CSTNode | str] = set()
    while values:
        where, node = values.pop()
        if node in followed:
            continue
        followed.add(node)
        further = _further(project, where, node)
        if further is None:
            return False
        values += further.values
        for name in further.names:
            if name not in followed:
                followed.add(name)
                values += ((other, use) for other in project.library.mentioning(name) for use in _uses(other, name))
    return True


@dataclass(frozen=True)
class _Further:
    """Where a value goes from one place: to calls of the function that returns it, or to names."""

    values: tuple[tuple[File, cst.CSTNode], ...] = ()
    names: tuple[str, ...] = ()


def _further(project: Project, file: File, value: cst.CSTNode) -> _Further | None:
    """Where a value goes; nowhere where it is called by keyword or only asked for, None where that cannot be seen."""
    node, parent = value, file.tree.parents[value]
    while isinstance(parent, cst.IfExp) and parent.test is not node:
        node, parent = parent, file.tree.parents[parent]
    if isinstance(parent, cst.Call) and parent.func is node:
        return _Further() if all(arg.keyword is not None for arg in parent.args) else None
    if is_only_tested(file.tree, node):
        return _Further()
    if isinstance(parent, cst.Return):
        return _to_callers(project, file, parent)
    name = _name_given(project, file, node) or _name_in_loop(file, node)
    return None if name is None else _Further(names=(name,))


def _to_callers(project: Project, file: File, statement: cst.Return) -> _Further | None:
    """The calls of the plain function that returns a value; those of a method cannot all be known."""
    node = file.tree.function(statement)
    function = None if node is None else project.reference(file, node)
    if function is None or function.owner is not None or function.node.decorators or function.node.asynchronous:
        return None
    sites = project.call_sites(function)
    return None if sites is None else _Further(values=tuple((site.file, site.call) for site in sites))


def _name_in_loop(file: File, value: cst.CSTNode) -> str | None:
    """The variable of a loop over a list that is written out: `for context in (nullcontext, autocast):`."""
    element = file.tree.parents[value]
    items = file.tree.parents[element]
    if not isinstance(element, cst.Element) or not isinstance(items, (cst.Tuple, cst.List)):
        return None
    loop = file.tree.parents[items]
    is_loop = isinstance(loop, (cst.For, cst.CompFor)) and loop.iter is items
    return _last(loop.target) if is_loop and isinstance(loop, (cst.For, cst.CompFor)) else None


def _uses(file: File, name: str) -> Iterator[cst.Name | cst.Attribute]:
    for use in file.uses.get(name, ()):
        parent = file.tree.parents[use]
        is_loop_variable = isinstance(parent, (cst.For, cst.CompFor)) and parent.target is use
        if not is_target(file.tree, use) and not is_loop_variable:
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
