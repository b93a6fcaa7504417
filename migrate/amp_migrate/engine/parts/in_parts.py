"""A large project in parts: each planned by itself, with no more than one part in memory.

Files that import one another are in one part. Where two parts want to change one file after all, they become one part
and are planned again, so that the result is that of planning everything at once, whatever the number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.analysis.components import Components
from amp_migrate.engine.find.prefilter import STEP_SIGN
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.outcome import FilePlan, Outcome, Part
from amp_migrate.engine.parts.garbage import collect, collected_later
from amp_migrate.engine.workspace import Workspace
from amp_migrate.report.finding import Finding
from amp_migrate.settings import Dtype, Settings

if TYPE_CHECKING:  # which needs LibCST
    from amp_migrate.engine.results.examined import Looked

Progress: TypeAlias = "Callable[[int, int], None]"
# Small enough that the trees of a part take little memory and that two processes share a middling project; large
# enough that what many files import is not parsed many times.
PART_BYTES = 192 * 2**10


def migrate_in_parts(
    workspace: Workspace, settings: Settings, workers: int = 1, progress: Progress = lambda done, all: None
) -> Outcome:
    """Like `migrate_workspace`, with up to `workers` processes.

    Args:
        progress: called with the number of candidates that are done and of all of them, at the beginning and each time
            a part is done.
    """
    parts = split(workspace, settings)
    outcomes: dict[Part, Outcome] = {}
    looked: Looked = {}  # parts that become one have results that were looked at
    while todo := [part for part in parts if part not in outcomes]:
        total = sum(map(len, parts))
        progress(total - sum(map(len, todo)), total)
        for part, outcome in _outcomes(workspace, settings, todo, workers, looked):
            outcomes[part] = outcome
            progress(sum(len(done) for done in parts if done in outcomes), total)
        parts = _joined(parts, outcomes)
    return merged(workspace, [outcomes[part] for part in parts])


def split(workspace: Workspace, settings: Settings) -> list[Part]:
    """The candidates of a workspace in parts that can be planned on their own, in order of name.

    Those that need not be planned together are together only where they are for the same PyTorch.
    """
    sizes: dict[Path, int] = {}
    brought: dict[Path, frozenset[Path]] = {}
    graph = ImportGraph(workspace)
    apart: set[Path] = set()
    for source in workspace.candidates():
        sizes[source.path] = len(source.text)
        if settings.dtype is Dtype.FP16:
            brought[source.path] = graph.brought(source.path)
            if not STEP_SIGN.search(source.text):
                apart.add(source.path)
    if sum(sizes.values()) <= PART_BYTES and len(set(map(settings.torch_of, sizes))) < 2:
        return [tuple(sizes)] if sizes else []
    parts: list[Part] = []
    room, torch = 0, None
    components = _by_imports(brought, apart) if settings.dtype is Dtype.FP16 else _by_project(workspace)
    for each, component in sorted(((min(map(settings.torch_of, one)), one) for one in components), key=itemgetter(0)):
        size = sum(sizes[path] for path in component)
        if size > room or each != torch:
            parts.append(())
            room, torch = PART_BYTES, each
        parts[-1] = (*parts[-1], *component)
        room -= size
    return [tuple(sorted(part)) for part in parts]


def _by_imports(brought: Mapping[Path, Iterable[Path]], apart: Collection[Path]) -> list[list[Path]]:
    """The files that import one another, and may have a step in common; those `apart` have no part in anybody's."""
    components = Components(brought)
    for path, targets in brought.items():
        for target in targets:
            if target not in apart:
                components.link(path, target)
    return components.all()


def _by_project(workspace: Workspace) -> list[list[Path]]:
    """The files of each project: where regions change their dtype, they have to agree on one."""
    return [[source.path for source in project.candidates()] for project in workspace.by_project()]


def _outcomes(
    workspace: Workspace, settings: Settings, parts: Sequence[Part], workers: int, looked: Looked
) -> Iterator[tuple[Part, Outcome]]:
    # LibCST and all rules take longer to load than many a tree takes to be searched in vain.
    with collected_later():
        from amp_migrate.engine.parts.one_by_one import OneByOne

    if workers > 1 and len(parts) > 1:
        from amp_migrate.engine.parts.processes import in_processes  # a single part never needs it

        yield from in_processes(workspace, settings, parts, workers, looked)
        return
    planner = OneByOne(workspace, settings, workers, looked)
    *others, last = sorted(parts, key=len)  # what the largest leaves behind is most, and goes with the process
    for part in others:
        yield part, planner.plan(part)
        planner.forget_oldest()
        collect()
    yield last, planner.plan(last)


def _joined(parts: Sequence[Part], outcomes: dict[Part, Outcome]) -> list[Part]:
    """`parts`, those that want to change one file made one."""
    owner = {path: part for part in parts for path in part}
    joined: dict[Part, set[Path]] = {part: set(part) for part in parts}
    for part in parts:
        for each in outcomes[part].changed:
            other = owner.setdefault(each.source.path, part)
            if joined[other] is not joined[part]:
                union = joined[other] | joined[part]
                for member in parts:
                    if joined[member] <= union:
                        joined[member] = union
    return sorted({tuple(sorted(paths)) for paths in joined.values()})


def merged(workspace: Workspace, outcomes: Iterable[Outcome]) -> Outcome:
    """What parts of a workspace came to, as one outcome."""
    plans: dict[Path, FilePlan] = {}
    problems: set[Finding] = set(workspace.problems)
    for outcome in outcomes:
        problems.update(outcome.problems)
        for each in outcome.plans:
            known = plans.get(each.source.path, each)
            findings = tuple(sorted({*known.findings, *each.findings}))
            # At most one of the two changes the file: it would be one part otherwise.
            plans[each.source.path] = replace(each if each.changed else known, findings=findings)
    in_order = tuple(sorted(plans.values(), key=lambda each: each.source.name))
    return Outcome(in_order, tuple(sorted(problems)), len(workspace.files))


def default_workers() -> int:
    """As many processes as this one may use processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
