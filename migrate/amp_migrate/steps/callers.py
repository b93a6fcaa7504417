"""Who calls a function that something has to be handed to."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from amp_migrate.analysis.project import CallSite, FunctionRef, Project


def every_call(project: Project, function: FunctionRef, seen: Collection[cst.CSTNode]) -> tuple[CallSite, ...] | str:
    """All calls of a function, or the reason why they are not known.

    Args:
        seen: the functions on the way so far: one that comes back to itself ends nowhere.
    """
    if function.node in seen:
        return f"{function.name}() calls itself"
    sites = project.call_sites(function)
    if sites is None:
        return f"{function.name}() is also passed around as a value, so not every call is known"
    return sites or f"no call of {function.name}() is among the files that were given"
