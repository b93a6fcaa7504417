"""What is checked of results before they are written: `prove/`, with the files around them by the workspace."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from amp_migrate.engine.outcome import FilePlan, together
from amp_migrate.engine.problems import PLEASE_REPORT, in_the_file, refused
from amp_migrate.engine.results.worse_numerics import left_for_its_scaler
from amp_migrate.engine.workspace import Workspace
from amp_migrate.prove.check import CHECKS, Change, Fault, Project, faults, is_readable
from amp_migrate.prove.code.program import Others
from amp_migrate.report.finding import Finding
from amp_migrate.settings import NEWEST_TORCH, Settings
from amp_migrate.tables.signatures import Version


def refuted(workspace: Workspace, plans: Iterable[FilePlan], settings: Settings) -> dict[Path, Finding]:
    """A finding for each file whose result is not the original but for its precision, or would not run.

    Files that belong together are looked at together. What is written for a newer Python than this one is not looked
    at. With `settings.prove`, casts must be shown to be of floating values, machines count on which packages are
    missing, and a repair is asked, too, whether it is the same program. A step whose scaler does not work on some way
    through it is left, for no result would be right; whatever else is wrong is a fault of ours.
    """
    found: dict[Path, Finding] = {}
    for group in together(workspace, plans):
        plans_here = {str(each.source.path): each for each in sorted(group, key=lambda each: each.source.name)}
        paths = {name: each.source.path for name, each in plans_here.items()}
        changes = [
            Change(name, each.source.text, each.after, each.is_repair and not settings.prove)
            for name, each in plans_here.items()
        ]
        project = project_of(workspace, paths.values(), settings.target_torch)
        try:
            wrong = faults(changes, project, is_strict=settings.prove)
        except Exception as error:  # a checker that fails has shown nothing
            frame = traceback.extract_tb(error.__traceback__)[-1]
            message = f"its check fails: {type(error).__name__} ({Path(frame.filename).name}:{frame.lineno})"
            wrong = dict.fromkeys(paths, Fault(message))
        for name, fault in wrong.items():
            if not fault.is_unread:
                found[paths[name]] = _finding(plans_here[name], plans_here.values(), fault)
    return found


def checks_of(plan: FilePlan) -> tuple[str, ...]:
    """What was asked of a result that was not refuted; nothing where it cannot be read here."""
    return CHECKS if is_readable(Change(plan.source.name, plan.source.text, plan.after)) else ()


def _finding(plan: FilePlan, belonging: Iterable[FilePlan], fault: Fault) -> Finding:
    left = left_for_its_scaler(plan, belonging, fault.message, fault.line_after) if fault.is_disorder else None
    finding = refused(plan.source.name, f"internal: {fault.message}", PLEASE_REPORT)
    return in_the_file(plan.source, left or replace(finding, line=fault.line_before))


def project_of(workspace: Workspace, changed: Iterable[Path], torch: Version) -> Project:
    """What is around some files that change; each is known by its path, as a text.

    Args:
        torch: the oldest PyTorch that they are written for.
    """
    paths = frozenset(changed)

    def locate(dotted: str, importer: str) -> str | None:
        found = workspace.beside(dotted, Path(importer))
        return None if found is None else str(found)

    def text(dotted: str, importer: str) -> str | None:
        found = workspace.beside(dotted, Path(importer))
        if found is None:
            return workspace.text_not_given(dotted, Path(importer))
        source = None if found in paths else workspace.file(found)
        return None if source is None else source.text

    def mentions(word: str) -> bool:
        return any(source.path not in paths for source in workspace.mentioning(word))

    return Project(locate, Others(text, mentions), (torch, NEWEST_TORCH))
