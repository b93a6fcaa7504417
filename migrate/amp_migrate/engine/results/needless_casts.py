"""Casts of a plan that its result does without: what they are of is float32 by others, as by a sigmoid that is one now.

That shows only once all is planned: what makes it float32 may be in another file.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.catalog.step_rules import FP32_STEP, RISKY_NUMERICS
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.results.examined import Needless
from amp_migrate.engine.results.float_casts import parsed
from amp_migrate.engine.results.importing_scripts import importing_scripts
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.source import Site, site_of
from amp_migrate.plan.code import Code, plain
from amp_migrate.plan.describe import described
from amp_migrate.plan.edit import Cast, Edit
from amp_migrate.write.consume import complete, new_text

# What is made for a step. A repair stays: without it the original is wrong.
_OF_STEPS = frozenset(each.code for each in (APEX_INITIALIZE, APEX_STEP, FP32_STEP, RISKY_NUMERICS))
_MARK = "amp_migrate_cast_"
_FLOAT = ".float()"


def without_casts(workspace: Workspace, plans: Iterable[FilePlan], needless: Needless) -> Iterator[FilePlan]:
    """The plans that have such casts, without them."""
    files = {each.file for each in needless.casts}
    for plan in plans:
        casts = [each for each in plan.planned if isinstance(each.change, Cast) and each.rule in _OF_STEPS]
        if casts and plan.source.name in files:
            gone = {each: _rest(each) for each, site in _written(plan, casts) if site in needless.casts}
            # Another that comes to one may bring what is low.
            if gone and all(each in needless.looked for each in importing_scripts(workspace, plan.source.name)):
                yield _without(plan, gone)


def _rest(edit: Edit) -> Edit | None:
    """What is left of a cast: nothing, or the name that stands for what is computed before."""
    assert isinstance(edit.change, Cast)
    new = edit.change.new
    return None if new.holes else replace(edit, change=Cast(plain(str(new).removesuffix(_FLOAT))))


def _without(plan: FilePlan, gone: Mapping[Edit, Edit | None]) -> FilePlan:
    tree = plan.planned[0].tree
    edits = complete(tree, filter(None, (gone.get(each, each) for each in plan.planned)))
    if not edits:  # it was changed for the sake of other files
        findings = tuple(each for each in plan.findings if not each.is_of_others)
        return FilePlan(plan.source, plan.source.text, findings)
    words = map(described, sorted(edits, key=lambda each: each.line)) if plan.edits else ()
    return replace(plan, after=new_text(tree, edits), planned=edits, edits=tuple(words))


def _written(plan: FilePlan, casts: Collection[Edit]) -> Iterator[tuple[Edit, Site]]:
    """Where each of some casts stands in the result: they are marked in a text that is the same otherwise."""
    numbered = {each: number for number, each in enumerate(casts)}
    marked = [_marked(each, numbered[each]) if each in numbered else each for each in plan.planned]
    by_mark = {f"{_MARK}{number}": each for each, number in numbered.items()}
    waiting: list[tuple[ast.AST, ast.AST]] = [(parsed(plan.after), parsed(new_text(plan.planned[0].tree, marked)))]
    while waiting:
        node, other = waiting.pop()
        if isinstance(other, ast.Call) and isinstance(other.func, ast.Name) and other.func.id in by_mark:
            yield by_mark[other.func.id], site_of(plan.source.name, node)
            other = other.args[0]
        waiting += zip(ast.iter_child_nodes(node), ast.iter_child_nodes(other), strict=True)


def _marked(edit: Edit, number: int) -> Edit:
    assert isinstance(edit.change, Cast)
    new = edit.change.new
    return replace(edit, change=Cast(Code((f"{_MARK}{number}(", *new.parts, ")"), new.needs)))
