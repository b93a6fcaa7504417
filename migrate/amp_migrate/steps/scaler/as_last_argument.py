"""How a scaler gets from the function that has it to one that it calls: beside nothing, so as the last argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import SCALER_NAMES, Creation, NewArgument, NewParameter, Route

# Functions that the same calls may run, each with all its calls and the way of the scaler to each caller.
HandedTogether: TypeAlias = "Mapping[FunctionRef, Sequence[tuple[CallSite, Route]]]"


def hand_on(function: FunctionRef, together: HandedTogether, unfilled: Sequence[FunctionRef] = ()) -> Route | Refusal:
    """The way of a scaler into a function of the project.

    Args:
        together: the function, and those that its calls may run besides. A call that trains nothing has None for one.
        unfilled: methods that it fills in, which take what it takes.

    Returns:
        No way of its own where all of them see their callers' scaler: the same object's, or a variable around both.
    """
    calls = [(each, site, route) for each, found in together.items() for site, route in found]
    training = [call for call in calls if call[2].scaler != "None"]
    scalers = {route.scaler for _, _, route in training}
    if len(scalers) == 1 and all(_is_seen(*call) for call in training):
        return Route(scalers.pop())
    name = function.file.scopes.free(SCALER_NAMES)
    given = [arg for _, site, _ in calls for arg in site.call.args]
    by_name = {site.call for each, site, _ in calls if _is_told_by_name(each, site)}
    for each in (*together, *unfilled):
        is_taken = each.file.scopes.free(SCALER_NAMES) != name or isinstance(each.node.params.star_arg, cst.Param)
        if name is None or is_taken or not _positional(each) or any(arg.star or _names(arg, name) for arg in given):
            return Refusal(
                each.file,
                each.node,
                f"no way for a loss scaler to this step: {each.name}() cannot take one more argument",
                "hand the GradScaler on to it by hand, or run with --dtype bf16, which needs no scaler",
            )
    assert name is not None
    is_optional = _positional(function)[-1].default is not None  # so that the scaler is None where none is given
    arguments = tuple(
        NewArgument(site, len(site.call.args) - 1, name, site.call in by_name, route.scaler)
        for site, route in together[function]
        if not (is_optional and route.scaler == "None")
    )
    parameters = (NewParameter(each, _positional(each)[-1].name.value, name) for each in (function, *unfilled))
    return Route(name, parameters=tuple(parameters), arguments=arguments)


def _positional(function: FunctionRef) -> list[cst.Param]:
    return [*function.node.params.posonly_params, *function.node.params.params]


def _is_told_by_name(function: FunctionRef, site: CallSite) -> bool:
    """Whether a call needs the name of the last parameter for one more argument: it leaves some before it out."""
    expected = len(_positional(function)) - function.is_bound - site.filled
    return any(arg.keyword is not None for arg in site.call.args) or len(site.call.args) != expected


def _names(argument: cst.Arg, name: str | None) -> bool:
    """Whether an argument is given by a name: so far, the function's `**` took what it has no parameter for."""
    return argument.keyword is not None and argument.keyword.value == name


def _is_seen(function: FunctionRef, site: CallSite, route: Route) -> bool:
    """Whether the function can name the caller's scaler as the caller does: it is a method of the same object, say."""
    if route.scaler.startswith("self."):
        owner, _, name = (dotted(site.call.func) or "").rpartition(".")
        is_its = name == function.name or site.file.tree.owner_class(site.call) is function.owner
        return owner == "self" and function.is_bound and is_its
    return (
        bool(route.creations) and not route.parameters and all(_is_around(each, function) for each in route.creations)
    )


def _is_around(creation: Creation, function: FunctionRef) -> bool:
    tree = creation.file.tree
    owner = tree.function(creation.home)
    return creation.file is function.file and (owner is None or owner in tree.ancestors(function.node))
