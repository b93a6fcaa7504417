"""Calls that Python refuses: a notebook that calls a function by the parameters which it had once.

Such a call runs nothing, whatever becomes of the function, so that it has no part in what is handed to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from amp_migrate.analysis.arguments.argument_binding import fits
from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.project import CallSite, FunctionRef, Project
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.steps.model.route import Ways

_PLAIN_DECORATORS = ("staticmethod", "classmethod")


def is_fit(function: FunctionRef, site: CallSite) -> bool:
    """Whether Python lets a call of a function run it."""
    return fits(function.node, site.call, bound=function.is_bound + site.filled)


def stale_calls(function: FunctionRef, sites: Sequence[CallSite]) -> tuple[CallSite, ...]:
    """The calls of a function that raise TypeError before it runs, as they are and with a parameter more.

    None is said to where all do, or where a decorator or a metaclass may change what the function takes.
    """
    owner = function.owner
    decorated = [*function.node.decorators, *(() if owner is None else owner.decorators)]
    is_changed = any(dotted(each.decorator) not in _PLAIN_DECORATORS for each in decorated)
    unfit = [each for each in sites if not is_fit(function, each)]
    if is_changed or len(unfit) == len(sites) or (owner is not None and owner.keywords):
        return ()
    return tuple(each for each in unfit if not is_fit(function, replace(each, call=_rest(each.call))))


def _rest(call: cst.Call) -> cst.Call:
    """What is left of a call for the other parameters where a new one takes an argument that is passed by position."""
    is_taken = bool(call.args) and not call.args[0].star and call.args[0].keyword is None
    return call.with_changes(args=call.args[1:]) if is_taken else call


def told_of_stale(project: Project, ways: Ways, code: str) -> Iterator[Finding]:
    """What is said of the calls that are handed no scaler, as they run nothing; `code` is that of the rule."""
    for function in (new.function for new in ways.parameters.values()):
        for site in stale_calls(function, project.call_sites(function) or ()):
            quoted = site.file.tree.quote(site.call)
            message = f"`{quoted}` raises TypeError, as it did: it does not fit the parameters of {function.name}()"
            hint = "pass it what it takes, and the scaler"
            yield Finding.at(site.file.tree, site.call, code, Kind.NOTE, message, hint)
