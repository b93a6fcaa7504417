"""How a scaler gets from the function that has it to one that it calls: beside nothing, so as the last argument."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.project import CallSite, FunctionRef
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.model.route import Creation, NewArgument, NewParameter, Route
from amp_migrate.steps.scaler.find_route import SCALER_NAMES


def hand_on(function: FunctionRef, calls: Sequence[tuple[CallSite, Route]]) -> Route | Refusal:
    """The way of a scaler into a function of the project.

    Args:
        calls: all its calls, each with the way of the scaler to the caller.

    Returns:
        No way of its own where the function sees its callers' scaler: the same object's, or a variable around both.
    """
    scalers = {route.scaler for _, route in calls}
    scaler = next(iter(scalers))
    if len(scalers) == 1 and all(_is_seen(function, site, route) for site, route in calls):
        return Route(scaler)
    file, params = function.file, function.node.params
    positional = [*params.posonly_params, *params.params]
    name = file.scopes.free(SCALER_NAMES)
    given = [arg for site, _ in calls for arg in site.call.args]
    is_taken = isinstance(params.star_arg, cst.Param) or any(arg.star or _names(arg, name) for arg in given)
    if name is None or not positional or is_taken:
        return Refusal(
            file,
            function.node,
            f"no way for a loss scaler to this step: {function.name}() cannot take one more argument",
            "hand the GradScaler on to it by hand, or run with --dtype bf16, which needs no scaler",
        )
    expected = len(positional) - function.is_bound
    arguments = tuple(
        NewArgument(
            site,
            len(site.call.args) - 1,
            name,
            any(arg.keyword is not None for arg in site.call.args) or len(site.call.args) != expected,
            route.scaler,
        )
        for site, route in calls
    )
    return Route(name, parameters=(NewParameter(function, positional[-1].name.value, name),), arguments=arguments)


def _names(argument: cst.Arg, name: str | None) -> bool:
    """Whether an argument is given by a name: so far, the function's `**` took what it has no parameter for."""
    return argument.keyword is not None and argument.keyword.value == name


def _is_seen(function: FunctionRef, site: CallSite, route: Route) -> bool:
    """Whether the function can name the caller's scaler as the caller does."""
    if route.scaler.startswith("self."):
        return function.owner is not None and site.file.tree.owner_class(site.call) is function.owner
    return (
        bool(route.creations) and not route.parameters and all(_is_around(each, function) for each in route.creations)
    )


def _is_around(creation: Creation, function: FunctionRef) -> bool:
    tree = creation.file.tree
    owner = tree.function(creation.home)
    return creation.file is function.file and (owner is None or owner in tree.ancestors(function.node))
