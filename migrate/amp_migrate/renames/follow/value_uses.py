"""Where a value goes from one place in the text: to a name, into a list, out of a function, or to a call."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import positional_names
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.frozen import frozen
from amp_migrate.renames.find.surroundings import is_only_tested

_PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})
_PLAIN_METHODS = frozenset({"staticmethod", "classmethod"})


@frozen
class Further:
    """Where a value goes from one place.

    Attributes:
        values: what it is there.
        names: the names that it goes by.
        makers: the names of what has to be called, or taken from, to get it: functions, lists and dictionaries.
    """

    values: tuple[tuple[File, cst.CSTNode], ...] = ()
    names: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()


def further(project: Project, file: File, value: cst.CSTNode) -> Further | None:
    """Where a value goes; nowhere where it is called by keyword or only asked for, None where that cannot be seen."""
    node = _choice(file, value)
    parent = file.tree.parents[node]
    if isinstance(parent, cst.Call) and parent.func is node:
        return Further() if all(arg.keyword is not None for arg in parent.args) else None
    if is_only_tested(file.tree, node):
        return Further()
    if isinstance(parent, cst.Return):
        return _to_callers(project, file, parent)
    if isinstance(parent, cst.Lambda) and parent.body is node:
        name = name_given(project, file, parent)
        return None if name is None else Further(makers=(name,))
    name = name_given(project, file, node) or _name_in_loop(file, node)
    if name is not None:
        return Further(names=(name,))
    holder = _holder(project, file, node)
    return None if holder is None else Further(makers=(holder,))


def taken(file: File, maker: cst.CSTNode) -> tuple[cst.CSTNode, ...] | None:
    """What is got from a use of a function, list or dictionary; None where that cannot be seen."""
    parent = file.tree.parents[maker]
    if isinstance(parent, cst.Call) and parent.func is maker:
        return (parent,)
    if isinstance(parent, cst.Subscript) and parent.value is maker:
        return () if file.tree.is_target(parent) else (parent,)
    if isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is maker:
        name = _last(parent.target)
        return None if name is None else tuple(uses(file, name))
    if isinstance(parent, cst.Attribute) and isinstance(call := file.tree.parents[parent], cst.Call):
        if parent.attr.value in ("append", "clear"):
            return ()
        return (call,) if parent.attr.value in ("get", "pop") and call.func is parent else None
    return () if is_only_tested(file.tree, maker) else None


def uses(file: File, name: str) -> Iterator[cst.Name | cst.Attribute]:
    """Where a name is read, alone or as an attribute."""
    for use in file.uses.get(name, ()):
        parent = file.tree.parents[use]
        is_loop_variable = isinstance(parent, (cst.For, cst.CompFor)) and parent.target is use
        if not file.tree.is_target(use) and not is_loop_variable:
            yield use


def _choice(file: File, value: cst.CSTNode) -> cst.CSTNode:
    """The whole conditional expression that a value is one side of, or the value."""
    node, parent = value, file.tree.parents[value]
    while isinstance(parent, cst.IfExp) and parent.test is not node:
        node, parent = parent, file.tree.parents[parent]
    return node


def _to_callers(project: Project, file: File, statement: cst.Return) -> Further | None:
    """The calls of the function that returns a value; those of a method are found by its name."""
    node = file.tree.function(statement)
    function = None if node is None else project.reference(file, node)
    if function is None or function.node.asynchronous:
        return None
    decorators = {dotted(each.decorator) for each in function.node.decorators}
    if function.owner is not None:
        if decorators and decorators <= _PROPERTIES:
            return Further(names=(function.name,))
        return Further(makers=(function.name,)) if decorators <= _PLAIN_METHODS else None
    sites = None if decorators else project.call_sites(function)
    return None if sites is None else Further(values=tuple((site.file, site.call) for site in sites))


def _holder(project: Project, file: File, value: cst.CSTNode) -> str | None:
    """The name of the list or dictionary that a value is put into, as in `regions.append(autocast)`."""
    parent = file.tree.parents[value]
    if isinstance(parent, (cst.Element, cst.DictElement)) and parent.value is value:
        return name_given(project, file, file.tree.parents[parent])
    call = file.tree.parents[parent]
    if isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        return _last(call.func.value) if call.func.attr.value == "append" and len(call.args) == 1 else None
    return None


def _name_in_loop(file: File, value: cst.CSTNode) -> str | None:
    """The variable of a loop over a list that is written out: `for context in (nullcontext, autocast):`."""
    element = file.tree.parents[value]
    items = file.tree.parents[element]
    if not isinstance(element, cst.Element) or not isinstance(items, (cst.Tuple, cst.List)):
        return None
    loop = file.tree.parents[items]
    is_loop = isinstance(loop, (cst.For, cst.CompFor)) and loop.iter is items
    return _last(loop.target) if is_loop and isinstance(loop, (cst.For, cst.CompFor)) else None


def name_given(project: Project, file: File, value: cst.CSTNode) -> str | None:
    """The last word of what a value is assigned to; None where it goes elsewhere, or to several names."""
    node = _choice(file, value)
    parent = file.tree.parents[node]
    if isinstance(parent, cst.Element):
        return _name_beside(file, parent)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        return _last(parent.targets[0].target)
    if isinstance(parent, cst.AnnAssign):
        return _last(parent.target)
    if isinstance(parent, cst.Param) and parent.default is node:
        return parent.name.value
    return _parameter(project, file, parent) if isinstance(parent, cst.Arg) else None


def _name_beside(file: File, element: cst.Element) -> str | None:
    """What one value of several is assigned to: `self.cast` of `self.cast, self.scaler = autocast, GradScaler`."""
    values = file.tree.parents[element]
    assign = file.tree.parents[values]
    if not isinstance(assign, cst.Assign) or not isinstance(values, cst.Tuple) or len(assign.targets) != 1:
        return None
    target = assign.targets[0].target
    if not isinstance(target, cst.Tuple) or len(target.elements) != len(values.elements):
        return None
    return _last(target.elements[list(values.elements).index(element)].value)


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
