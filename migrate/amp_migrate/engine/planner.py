"""From the files of a project to the new text of each, with nothing written.

The plan is made for the whole project at once, because a scaler may have to travel from the file that
creates the optimizer to the file that steps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.analysis.wanted import Wanted
from amp_migrate.engine.annotate import annotate
from amp_migrate.engine.library import Parsed, ParsedLibrary
from amp_migrate.engine.prefilter import may_matter
from amp_migrate.engine.source import Source
from amp_migrate.engine.unwanted import why_unwanted
from amp_migrate.engine.workspace import Workspace
from amp_migrate.hazards.script import Script, speaks_of_amp
from amp_migrate.pragmas import read_pragmas
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.rules.find_hazards import HazardFinder
from amp_migrate.rules.handed_on import handed_on
from amp_migrate.rules.rename_names import rename_names
from amp_migrate.rules.rule import name_rules
from amp_migrate.rules.staying import staying_regions
from amp_migrate.settings import Dtype, Settings
from amp_migrate.steps.draft import Draft
from amp_migrate.steps.migrate_steps import StepMigration
from amp_migrate.steps.other_dtype import OtherDtype

# What is told of a file whose forwards get regions; others bring names only, from the shim or from torch.
_INTO_REGIONS = ("AMP201", "AMP202", "AMP501")


@dataclass(frozen=True)
class FilePlan:
    """What is to become of one file.

    Attributes:
        source: the file as it was read.
        after: its new text; equal to `source.text` where only findings are to be told.
        findings: everything to be said about the file, in order of place.
    """

    source: Source
    after: str
    findings: tuple[Finding, ...]

    @property
    def changed(self) -> bool:
        """Whether the file's text would change."""
        return self.after != self.source.text


def plan(workspace: Workspace, settings: Settings, parsed: Parsed) -> tuple[FilePlan, ...]:
    """Plan the migration of every file of `workspace`, without touching any.

    Args:
        parsed: files that need not be parsed again; those that had to be are added.
    """
    plans = (each for project in workspace.by_project() for each in _plan_project(project, settings, parsed))
    return tuple(sorted(plans, key=lambda each: each.source.name))


def _plan_project(workspace: Workspace, settings: Settings, parsed: Parsed) -> Iterator[FilePlan]:
    library = ParsedLibrary(workspace, parsed, settings.target_torch)
    renaming = [each.rule for each in name_rules()]
    kept = frozenset(
        rule.code for rule in renaming if rule.since > settings.target_torch or not settings.applies(rule.code)
    )

    def wanted(file: File, node: cst.CSTNode, code: str) -> bool:
        pragmas = read_pragmas(library.source(file).text)
        if pragmas.skips_file or not settings.applies(code) or code in kept:
            return False
        return not pragmas.ignored or not pragmas.ignores(code, file.tree.position(node)[0])

    steps = StepMigration(Project(library), settings, wanted)
    candidates = tuple(library.candidates())
    steps.run(candidates)
    moved = {each.path for each in steps.findings if each.kind is Kind.MIGRATED and each.code in _INTO_REGIONS}
    dtype = settings.dtype if settings.applies("AMP510") else Dtype.FP16
    tried = partial(Draft, settings=settings)
    handed = handed_on(candidates, steps.project, tried, dtype, wanted)
    staying = staying_regions(handed, candidates, steps.project, tried, wanted)
    other = OtherDtype(steps.project, dtype, steps.draft, kept, staying)
    steps.findings.extend(other.run(candidates))
    for file in handed:
        steps.findings.extend(
            rename_names(
                file, steps.project, steps.draft(file), other.dtype, other.descaler.fates, wanted, handed[file]
            )
        )
    hazards = HazardFinder(steps.draft, other.dtype, partial(_wanted_here, frozenset(candidates), wanted))
    for file in candidates:
        has_amp = speaks_of_amp(library.source(file).text)
        if has_amp or file.name in moved:
            script = Script(file, steps.roles, settings, has_amp, file.name in moved, other.regions)
            steps.findings.extend(hazards.find(script))
    by_name: dict[str, list[Finding]] = {}
    for finding in sorted(set(steps.findings)):  # scripts that run one model find its hazards together
        by_name.setdefault(finding.path, []).append(finding)
    yield from _file_plans(library, settings, steps, by_name)


def _wanted_here(candidates: frozenset[File], wanted: Wanted, file: File, node: cst.CSTNode, code: str) -> bool:
    """Whether a hazard is to be told; a script planned elsewhere has its own found there, with all that changes."""
    text = file.tree.text
    is_script = may_matter(text.encode("utf-8", "surrogatepass")) or speaks_of_amp(text)
    return (file in candidates or not is_script) and wanted(file, node, code)


def _file_plans(
    library: ParsedLibrary, settings: Settings, steps: StepMigration, by_name: Mapping[str, Sequence[Finding]]
) -> Iterator[FilePlan]:
    """The new text of every file that changes or has findings, in order of name."""
    files = {file.name: file for file in library.parsed}
    if settings.annotate:
        for name, findings in by_name.items():
            pragmas = read_pragmas(library.source(files[name]).text)
            left = [each for each in findings if each.kind is Kind.LEFT]
            left = [each for each in left if not why_unwanted(each.code, each.line, settings, pragmas)]
            if left:
                annotate(steps.draft(files[name]), left)
    for name in sorted({*by_name, *(file.name for file, draft in steps.drafts.items() if draft.edits)}):
        draft = steps.drafts.get(files[name])
        source = library.source(files[name])
        after = source.text if draft is None or draft.changes_nothing else draft.finish()
        yield FilePlan(source, after, tuple(by_name.get(name, ())))
