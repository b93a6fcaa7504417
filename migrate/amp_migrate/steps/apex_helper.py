"""`amp.initialize` in a helper (`model, optimizer = prepare(model, optimizer, args.fp16)`), as its caller sees it.

The scaler is made where the caller has its optimizer from, so that the helper's parameters become what is passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.calls import passed
from amp_migrate.analysis.project import CallSite, Project
from amp_migrate.analysis.scopes import BindingKind
from amp_migrate.steps.apex_initialize import Initialize
from amp_migrate.steps.flow import reads
from amp_migrate.steps.ways import Creation
from amp_migrate.trees import build


def seen_from(project: Project, initialize: Initialize, creation: Creation) -> Initialize | None:
    """The same initialization in the words of the function that makes a scaler, and calls the helper.

    Returns:
        None where the helper is not called there exactly once, or where its condition is made from more than is passed.
    """
    node = initialize.file.tree.function(initialize.home)
    tree = creation.file.tree
    if node is None:
        return None
    function = project.reference(initialize.file, node)
    sites = [
        site
        for site in project.call_sites(function) or ()
        if site.file is creation.file and tree.function(site.call) is tree.function(creation.home)
    ]
    if len(sites) != 1:
        return None
    codes = [*initialize.switch, *([] if initialize.init_scale is None else [initialize.init_scale])]
    names = reads([build.expression(code) for code in codes])
    given = {name: _given(sites[0], node, name, is_bound=function.is_bound) for name in names if name not in _CONSTANTS}
    values = {name: value for name, value in given.items() if value is not None and _is_set(value, creation)}
    if len(values) < len(given):
        return None
    return replace(
        initialize,
        file=creation.file,
        home=creation.home,
        switch=tuple(_put_in(code, values) for code in initialize.switch),
        init_scale=None if initialize.init_scale is None else _put_in(initialize.init_scale, values),
    )


_CONSTANTS = frozenset({"True", "False", "None", "float", "bool"})


def _given(site: CallSite, node: cst.FunctionDef, name: str, *, is_bound: bool) -> cst.BaseExpression | None:
    """What a call passes for a parameter: names, attributes and constants, which mean the same a line later."""
    found = passed(node, site.call, name, bound=is_bound)
    if found is None:
        return None
    params = (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)
    default = next((each.default for each in params if each.name.value == name), None)
    value = default if found.argument is None else found.argument.value
    plain = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float)
    return value if isinstance(value, plain) else None


def _is_set(value: cst.BaseExpression, creation: Creation) -> bool:
    """Whether a name that is passed means the same already where the scaler is made."""
    file = creation.file
    order = file.tree.order
    names = reads([value])
    bindings = [each for name in names for each in file.scopes.of(creation.home).lookup(name)]
    return all(
        binding.kind is BindingKind.PARAMETER or order[binding.node] < order[creation.home]
        for binding in bindings
        if file.tree.function(binding.node) is file.tree.function(creation.home)
    )


def _put_in(code: str, values: Mapping[str, cst.BaseExpression]) -> str:
    expression = build.expression(code).visit(_Filler(values))
    assert isinstance(expression, cst.BaseExpression)
    return cst.Module([]).code_for_node(expression)


class _Filler(cst.CSTTransformer):
    def __init__(self, values: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.values = values

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value.visit(self)
        assert isinstance(value, cst.BaseExpression)
        return updated_node.with_changes(value=value)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.values.get(original_node.value, updated_node)
