"""A function whose parameter says whether mixed precision is on: `def infer(model, loader, fp16=True)`.

It asks that parameter where it initializes Apex, be it in a branch, and its callers hand on what they have initialized
Apex by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import passed
from amp_migrate.analysis.bindings import BindingKind
from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.steps.apex.initialize.branches import place_of
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.put_in import put_in
from amp_migrate.steps.apex.initialize.reached import ways_to
from amp_migrate.steps.apex.initialize.switch import is_builtin, is_visible, switch_code
from amp_migrate.steps.statements.data_flow import reads
from amp_migrate.trees import build


def asked_of_parameter(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> str | None:
    """How a place asks for mixed precision, by what the call of `amp.initialize` before it asks of parameters.

    Returns:
        None where there is no one such call in the function, or where a caller may have initialized by something else.
    """
    tree, node = file.tree, file.tree.function(at)
    if node is None:
        return None
    inside = [each for each in initializes if each.file is file and tree.function(each.home) is node]
    if len(inside) != 1 or tree.order[inside[0].home] >= tree.order[tree.statement(at)]:
        return None
    (own,) = inside
    around = place_of(file, own.statement, own.optimizers)[1]
    asked = replace(own, switch=own.switch[len(around) :])
    names = _names(asked)
    function = project.reference(file, node)
    sites = project.running(function)
    are_parameters = names and all(_is_parameter(file, at, node, name) for name in names)
    if own.switch[: len(around)] != around or not are_parameters or not sites:
        return None
    others = [each for each in initializes if each is not own]
    around_it = _names(replace(own, switch=around))
    is_handed = all(_is_handed_on(project, site, function, asked, others, around_it) for site in sites)
    return switch_code(asked) if is_handed else None


def _names(initialize: Initialize) -> list[str]:
    scope = initialize.file.scopes.of(initialize.home)
    found = reads(map(build.expression, initialize.switch))
    return sorted(each for each in found if not is_builtin(each, scope))


def _is_parameter(file: File, at: cst.CSTNode, function: cst.FunctionDef, name: str) -> bool:
    scope = file.scopes.of(at).find(name)
    given = file.scopes.of(at).lookup(name)
    return scope is not None and scope.node is function and [each.kind for each in given] == [BindingKind.PARAMETER]


def _is_handed_on(
    project: Project,
    site: CallSite,
    function: FunctionRef,
    asked: Initialize,
    others: Sequence[Initialize],
    around: Sequence[str],
) -> bool:
    """Whether all that a caller may have initialized asks what it passes.

    Where it has initialized nothing, the function does: unless the caller passes what `around` it is asked for that.
    """
    ways = ways_to(project, others, site.file, site.call)
    if ways is None:
        return False
    before = {initialize: None for way in ways for initialize in (*way.asked, *way.doubtful)}
    values: dict[str, cst.BaseExpression] = {}
    for name in _names(asked) if before else around:
        found = passed(function.node, site.call, name, bound=function.is_bound)
        if found is None or (found.argument is None) is bool(before):
            return False
        if found.argument is not None:
            values[name] = found.argument.value
    switch = tuple(put_in(code, values) for code in asked.switch)
    return all(each.switch == switch and is_visible(project, each, site.file, site.call) for each in before)
