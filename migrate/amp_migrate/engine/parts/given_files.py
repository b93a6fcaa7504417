"""Scripts that are named without the rest of their project: what they import is read, and left as it is.

A model in another file may have to be kept in float32, and a function in another file may step the optimizer. What a
script imports is therefore looked at like the script itself; but only what was named is changed.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from amp_migrate.catalog.step_rules import STEP_LEFT
from amp_migrate.engine.find.discover import FoundFile
from amp_migrate.engine.imports import resolve_import
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.imports.imports_of_text import imported_modules
from amp_migrate.engine.outcome import Outcome, together
from amp_migrate.engine.parts.in_parts import Progress, merged, migrate_in_parts
from amp_migrate.engine.source import Source, from_here
from amp_migrate.engine.workspace import OnDisk, Workspace, text_of_imports
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.repository import repository
from amp_migrate.settings import Settings

# The nearest imports say most about a script. One that brings in a whole library must not wait for it to be read.
_MOST_BYTES = 512 * 2**10
_MOST_NAMES = 3
# Without any of these, a script has no part in a step that is in another file.
_PART_SIGN = re.compile(r"optim|amp\b|GradScaler", re.I)
_HINT = "name them on the command line as well, or the folder of the project"


def migrate_named(
    workspace: Workspace,
    paths: Iterable[Path],
    settings: Settings,
    workers: int = 1,
    progress: Progress = lambda done, all: None,
) -> Outcome:
    """Like `migrate_in_parts`, with what the scripts among `paths` import looked at as well.

    Where files that were not named would have to change together with those that were, these are planned on their own,
    and what the others have to do with it is told.
    """
    scripts = [os.path.realpath(path) for path in paths if path.is_file()]
    tops = {repository(Path(each).parent) for each in scripts}
    roots = sorted(str(top) for top in tops if top is not None)
    named = frozenset(workspace.files)
    seeing = workspace.seeing(_imported(scripts, roots), roots)
    if len(seeing.files) == len(named):
        return migrate_in_parts(workspace, settings, workers, progress)
    outcome = migrate_in_parts(seeing, replace(settings, annotate=False), workers, progress)
    changed = [each.source for each in outcome.changed]
    if settings.annotate:
        outcome = migrate_in_parts(seeing, settings, workers, progress)
    if all(each.path in named for each in changed):
        return _with_missed_steps(_of_named(outcome, seeing, named), seeing, named, settings)
    return _apart(outcome, workspace, seeing, settings, changed)


def _imported(scripts: Sequence[str], roots: Sequence[str]) -> list[FoundFile]:
    """The files on the disk that scripts import, directly or through others, the nearest first, up to a size."""
    found: list[FoundFile] = []
    given = frozenset(scripts)
    met = set(scripts)
    queue = deque(scripts)
    room = _MOST_BYTES
    while queue:
        real = queue.popleft()
        text = text_of_imports(Path(real))
        if real not in given:
            room -= len(text)
            if room < 0:
                break
            found.append(FoundFile(from_here(Path(real)), real))
        for dotted in imported_modules(text):
            target = resolve_import.resolve(dotted, real, OnDisk(), (os.path.dirname(real), *roots))
            target = None if target is None else os.path.realpath(target)
            if target is not None and target not in met:
                met.add(target)
                queue.append(target)
    return found


def _apart(
    outcome: Outcome, workspace: Workspace, seeing: Workspace, settings: Settings, changed: Sequence[Source]
) -> Outcome:
    """`outcome`, with the named files that would have to change together with others planned on their own.

    Args:
        changed: the files that would change.
    """
    named = frozenset(workspace.files)
    others = [each for each in changed if each.path not in named]
    groups = [{each.source.path for each in group} for group in together(seeing, outcome.changed)]
    joined = frozenset().union(*(group for group in groups if not group <= named)) & named or named
    own = migrate_in_parts(workspace.focused(joined), settings)
    taken = joined.union(each.source.path for each in own.changed)
    rest = replace(outcome, plans=tuple(each for each in outcome.plans if each.source.path not in taken))
    both = merged(workspace, [_of_named(rest, seeing, named), own])
    told = {each.source.path: each.source for each in own.plans if each.source.path in joined}
    told |= {each.path: each for each in changed if each.path in joined}
    return _with_notes(both, seeing, settings, list(told.values()), others)


def _of_named(outcome: Outcome, seeing: Workspace, named: frozenset[Path]) -> Outcome:
    """What is to be said of named files, and of others because of them."""
    names = {str(path) for path in seeing.files if path not in named}
    plans = (each if each.source.path in named else replace(each, after=each.source.text) for each in outcome.plans)
    problems = tuple(each for each in outcome.problems if each.path not in names)
    return Outcome(tuple(each for each in plans if each.changed or each.findings), problems, len(named))


def _with_missed_steps(outcome: Outcome, seeing: Workspace, named: frozenset[Path], settings: Settings) -> Outcome:
    """`outcome`, with notes for the files about which there is nothing to say because their steps are elsewhere."""
    silent = [
        source
        for source in filter(None, map(seeing.file, named))
        if outcome.plan_of(source.path) is None and _PART_SIGN.search(source.text)
    ]
    if not silent:
        return outcome
    whole = migrate_in_parts(seeing.focused(seeing.files), settings)
    changed = [each.source for each in whole.changed]
    missed = [each for each in changed if any(each.path == source.path for source in silent)]
    return _with_notes(outcome, seeing, settings, missed, [each for each in changed if each.path not in named])


def _with_notes(
    outcome: Outcome, seeing: Workspace, settings: Settings, named: Sequence[Source], others: Sequence[Source]
) -> Outcome:
    """`outcome`, with a note for each of the `named` files that has a training step in common with `others`."""
    if not settings.applies(STEP_LEFT.code):
        return outcome
    notes: list[Finding] = []
    for group in ImportGraph(seeing).groups((*named, *others)):
        names = sorted(each.name for each in group if each in others)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        message = (
            f"its part in {', '.join(names[:_MOST_NAMES])}{more} left as it was: not among the files that were given"
        )
        notes += [
            Finding(each.name, 0, 0, STEP_LEFT.code, Kind.LEFT, message, _HINT)
            for each in group
            if names and each in named
        ]
    return replace(outcome, problems=(*outcome.problems, *notes))
