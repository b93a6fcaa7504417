"""From the files of a project to the new text of each, with nothing written.

The plan is made for the whole project at once, because a scaler may have to travel from the file that
creates the optimizer to the file that steps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_migrate.analysis.project import Project
from amp_migrate.engine.find.prefilter import may_matter
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.parsed_files import Parsed, ParsedLibrary
from amp_migrate.engine.parts.work import Work, count
from amp_migrate.engine.texts.annotate import annotate
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import Programs
from amp_migrate.hazards.seen.script import speaks_of_amp
from amp_migrate.moves import moves_of, repairing_rules, wishes_of
from amp_migrate.plan.describe import described
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings
from amp_migrate.write.consume import Settled, consume, new_text


def plan(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> tuple[FilePlan, ...]:
    """Plan the migration of every file of `workspace`, without touching any.

    Args:
        parsed: files that need not be parsed again; those that had to be are added.
        programs: the same, of what was interpreted.
    """
    projects = workspace.by_project()
    plans = (each for project in projects for each in _plan_project(project, settings, parsed, programs))
    return tuple(sorted(plans, key=lambda each: each.source.name))


def _plan_project(workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs) -> Iterator[FilePlan]:
    library = ParsedLibrary(workspace, parsed, settings.target_torch)
    plan = settle(library, settings, programs)
    repairing = repairing_rules()
    count(Work.PLANS)
    count(Work.EDITS, sum(map(len, plan.edits.values())))
    files = {file.name: library.source(file) for file in library.parsed}
    edits = {tree.name: (tree, each) for tree, each in plan.edits.items()}
    findings: dict[str, list[Finding]] = {}
    for finding in plan.findings:
        findings.setdefault(finding.path, []).append(finding)
    beside: dict[str, set[Path]] = {}
    for trees in plan.together:
        for changed in trees:
            beside.setdefault(changed.name, set()).update(files[each.name].path for each in trees)
    for name in sorted({*findings, *edits}):
        tree, mine = edits.get(name, (None, ()))
        after = files[name].text if tree is None else new_text(tree, mine)
        in_words = map(described, sorted(mine, key=lambda each: each.line)) if settings.explain else ()
        is_repair = not repairing.isdisjoint(each.rule for each in mine)
        said = tuple(findings.get(name, ()))
        others = tuple(sorted(beside.get(name, ())))
        yield FilePlan(files[name], after, said, tuple(in_words), is_repair=is_repair, beside=others, planned=mine)


def settle(library: ParsedLibrary, settings: Settings, programs: Programs) -> Settled:
    """The plan of one project, edit by edit."""
    wishes = wishes_of(settings)
    candidates = tuple(library.candidates())
    moves = list(moves_of(Project(library), candidates, wishes, library.texts, programs, _has_own_plan))
    trees = {file.name: file.tree for file in library.parsed}
    settled = consume(moves, wishes, trees)
    if not settings.annotate:
        return settled
    left = [each for each in settled.findings if each.kind is Kind.LEFT]
    comments = (edit for tree in trees.values() for edit in annotate(tree, [f for f in left if f.path == tree.name]))
    return consume([*moves, *(Move((edit,)) for edit in comments)], wishes, trees)


def _has_own_plan(text: str) -> bool:
    """Whether a script with this text is planned for itself, with all that changes for its sake."""
    return may_matter(text.encode("utf-8", "surrogatepass")) or speaks_of_amp(text)
