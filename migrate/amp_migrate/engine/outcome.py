"""What is to become of files, and what is said of them: made by a planner, which need not be there to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from amp_migrate.analysis.components import Components
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.source import Source
from amp_migrate.engine.workspace import Workspace
from amp_migrate.frozen import frozen
from amp_migrate.report.change import FileChange
from amp_migrate.report.finding import Finding, Kind

if TYPE_CHECKING:  # which needs LibCST
    from amp_migrate.plan.edit import Edit

# Files that are planned together.
Part: TypeAlias = "tuple[Path, ...]"


@frozen
class FilePlan:
    """What is to become of one file.

    Attributes:
        source: the file as it was read.
        after: its new text; equal to `source.text` where only findings are to be told.
        findings: everything to be said about the file, in order of place.
        edits: what changes, edit by edit in words, where that was asked for.
        checked: what of the new text was checked by `prove/`, by name, where that was asked for.
        is_repair: whether something in it is to do what it was meant to do, and did not: it is another program.
        beside: the files that it changes together with, and itself, whatever imports what: one move is made in them.
        planned: its edits, for as long as others may be added.
    """

    source: Source
    after: str
    findings: tuple[Finding, ...]
    edits: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    is_repair: bool = False
    beside: tuple[Path, ...] = ()
    planned: tuple[Edit, ...] = field(default=(), compare=False, repr=False)

    @property
    def changed(self) -> bool:
        """Whether the file's text would change."""
        return self.after != self.source.text


@frozen
class Outcome:
    """What a run came to.

    Attributes:
        plans: the files that change or have findings, in order of name; every new text is checked.
        problems: what is to be said of files that could not be read, planned, checked or written.
        files: how many files were looked at.
    """

    plans: tuple[FilePlan, ...]
    problems: tuple[Finding, ...]
    files: int

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything to be said, in order of place."""
        planned = (finding for each in self.plans for finding in each.findings)
        return tuple(sorted({*self.problems, *planned}))

    @property
    def changed(self) -> tuple[FilePlan, ...]:
        """The plans that would change their file."""
        return tuple(each for each in self.plans if each.changed)

    def plan_of(self, path: Path) -> FilePlan | None:
        """The plan of one file; None where there is nothing to change or say."""
        return next((each for each in self.plans if each.source.path == path), None)


def together(workspace: Workspace, plans: Iterable[FilePlan]) -> list[list[FilePlan]]:
    """Plans in groups that are written whole or not at all: files import one another, or one move is made in them."""
    by_path = {each.source.path: each for each in plans}
    found = Components(by_path)
    for group in ImportGraph(workspace).groups(each.source for each in by_path.values()):
        for source in group:
            found.link(group[0].path, source.path)
    for path, each in by_path.items():
        for other in each.beside:
            found.link(path, other)
    return [[by_path[path] for path in group] for group in found.all()]


def without_refused(workspace: Workspace, outcome: Outcome, wrong: Mapping[Path, Finding]) -> Outcome:
    """`outcome` without the changes to the files in `wrong`, and without those that only make sense with them."""
    if not wrong:
        return outcome
    said = dict(wrong)
    for group in together(workspace, outcome.changed):
        sources = [each.source for each in group]
        causes = sorted((wrong[source.path] for source in sources if source.path in wrong), key=lambda each: each.path)
        for source in sources:
            if causes and source.path not in wrong:
                message = f"file left as it was, because {causes[0].path} is and the two belong together"
                said[source.path] = replace(causes[0], path=source.name, line=0, column=0, message=message, hint="")
    plans = tuple(_withdrawn(each) if each.source.path in said else each for each in outcome.plans)
    plans = tuple(each for each in plans if each.changed or each.findings)
    return Outcome(plans, (*outcome.problems, *said.values()), outcome.files)


def _withdrawn(each: FilePlan) -> FilePlan:
    # What was left before is still left, and hazards are still there; what was to be migrated is not.
    findings = tuple(finding for finding in each.findings if finding.kind in (Kind.LEFT, Kind.HAZARD, Kind.ERROR))
    return replace(each, after=each.source.text, findings=findings, edits=())


def changes_of(workspace: Workspace, outcome: Outcome) -> Iterator[tuple[FileChange, ...]]:
    """The changes of an outcome: files that belong together are one group, in order of name."""
    for group in together(workspace, outcome.changed):
        yield tuple(_change(each) for each in sorted(group, key=lambda each: each.source.name))


def _change(each: FilePlan) -> FileChange:
    """The texts of the file itself: those of a notebook are its JSON."""
    source = each.source
    encoding = "utf-8-sig" if source.bom else source.encoding
    before, after = (source.encode(text).decode(encoding) for text in (source.text, each.after))
    return FileChange(source.name, before, after)
