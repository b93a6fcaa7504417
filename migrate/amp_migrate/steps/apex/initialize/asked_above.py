"""How a function asks for what a call above has initialized: `if args.train: train(args)`, and then `evaluate(args)`.

Apex has patched the process by then, for whatever the function goes on to run. The condition is that of the call, with
that of `amp.initialize` below it, in the words of the function.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import CallSite, Project
from amp_migrate.steps.apex.initialize.branches import is_read
from amp_migrate.steps.apex.initialize.in_helper import place_of_call, told_to_caller
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.initialize.reached import Frames, always_runs, ways_before, ways_to
from amp_migrate.steps.apex.initialize.switch import switch_code
from amp_migrate.trees import build


def asked_above(project: Project, initializes: Sequence[Initialize], file: File, at: cst.CSTNode) -> str | None:
    """The condition at a place under which a call above it in its function has initialized Apex, as code.

    Returns:
        None where it is no one call above, on each way to the place, or where its condition cannot be said there.
    """
    ways = ways_to(project, initializes, file, at) or ()
    before = {each for way in ways for each in (*way.asked, *way.doubtful)}
    if len(before) != 1 or not all(way.asked or way.doubtful for way in ways):
        return None
    (initialize,) = before
    below = {_below(each, file, at) for each in ways_before(project, initialize, file, at)}
    frames = below.pop() if len(below) == 1 else None
    seen = None if frames is None else _seen(project, initialize, frames, file, at)
    code = None if seen is None else switch_code(seen)
    return None if seen is None or code is None or _is_changed(file, seen, code, at) else code


def _below(way: Frames, file: File, at: cst.CSTNode) -> Frames | None:
    """The part of a way that leads from the function of a place to what initializes, from there outwards."""
    function = file.tree.function(at)
    for index, (where, node) in enumerate(way):
        if index and where is file and file.tree.function(node) is function:
            return way[: index + 1]
    return None


def _seen(project: Project, initialize: Initialize, frames: Frames, file: File, at: cst.CSTNode) -> Initialize | None:
    """An initialization in the words of the outermost function of some frames; None where it is not all said there."""
    seen: Initialize | None = initialize
    for where, call in frames[1:]:
        node = None if seen is None else seen.file.tree.function(seen.home)
        is_certain = seen is not None and always_runs(seen.file.tree, seen.home, None)
        if seen is None or node is None or not is_certain or project.is_of_several(call):
            return None
        site = CallSite(where, cst.ensure_type(call, cst.Call))
        home, conditions = place_of_call(site)
        if home in where.tree.ancestors(at):  # what is asked round both is not asked again
            home, conditions = where.tree.statement(call), ()
        seen = told_to_caller(seen, project.reference(seen.file, node), site, home, conditions)
    if seen is None:
        return None
    tree = file.tree
    block = tree.common_block([seen.home, at])
    above, below = tree.lift(seen.home, block), tree.lift(at, block)
    is_above = above is not below and tree.order[above] < tree.order[below]
    return seen if is_above and always_runs(tree, seen.home, above) else None


def _is_changed(file: File, seen: Initialize, code: str, at: cst.CSTNode) -> bool:
    """Whether something of a condition may have another value at a place than where it was asked."""
    condition, order = build.expression(code), file.tree.order
    return any(
        order[each.node] > order[seen.home] and is_read(condition, name)
        for name, bindings in file.scopes.of(at).bindings.items()
        for each in bindings
    )
