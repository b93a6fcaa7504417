"""One run of `amp-migrate`: from what was asked for to files, output streams and an exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TextIO

import click

from amp_migrate.catalog.rule import Rule
from amp_migrate.command.declared_torch import declared_below, nearest_possible
from amp_migrate.command.output import note, print_changes, shown
from amp_migrate.engine.disk.apply import apply_elsewhere, apply_in_place
from amp_migrate.engine.disk.journal import undo_command
from amp_migrate.engine.disk.leftovers import recover, tidy
from amp_migrate.engine.disk.tree import find_root
from amp_migrate.engine.find.selection import Selection
from amp_migrate.engine.notebooks.notebook import read_source
from amp_migrate.engine.outcome import Outcome, changes_of
from amp_migrate.engine.parts import work
from amp_migrate.engine.parts.given_files import migrate_named
from amp_migrate.engine.parts.in_parts import default_workers
from amp_migrate.engine.problems import refused, unreadable
from amp_migrate.engine.source import SourceError, display_name
from amp_migrate.engine.workspace import Workspace
from amp_migrate.frozen import frozen
from amp_migrate.report.change import FileChange
from amp_migrate.report.fail_on import FailOn, fails
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.formats import Format, render
from amp_migrate.report.forms.terminal import progress_bar
from amp_migrate.report.forms.text import places
from amp_migrate.report.plain import plain
from amp_migrate.report.report import OldestTorch, Report
from amp_migrate.settings import DEFAULT_TORCH, Measured, Settings
from amp_migrate.tables.signatures import written

_MOST_NESTED = 3  # more folders with targets of their own are not named


@frozen
class MigrationRequest:
    """What was asked for.

    Attributes:
        paths: files and folders; none of them for standard input.
        settings: how to migrate.
        scope: which files below the folders.
        diff: print the changes instead of writing them.
        check: write nothing.
        target_said: where the target's PyTorch comes from, if it was not said.
        target_folder: the folder whose files are written for what folders below it declare, if it was not said.
        fail_on: the findings that make the exit code 1.
        statistics: whether the report tells how much was done.
        quiet: no report, but for errors.
        output: a file or folder to write to, the originals being left alone.
        form: how the report is shown.
        workers: how many processes to use at most; a small project takes one.
        stdin_name: the name that standard input goes by in what is said about it.
    """

    paths: tuple[Path, ...]
    settings: Settings
    scope: Selection
    diff: bool = False
    check: bool = False
    target_said: str = ""
    target_folder: Path | None = None
    fail_on: tuple[FailOn, ...] = ()
    statistics: bool = False
    quiet: bool = False
    output: str | None = None
    form: Format = Format.TEXT
    workers: int = field(default_factory=default_workers)
    stdin_name: str = "<stdin>"

    @property
    def writes(self) -> bool:
        """Whether files may change."""
        return not (self.diff or self.check or self.settings.explain)


def execute(request: MigrationRequest) -> int:
    """Do what was asked for, print what is to be printed, and return the exit code."""
    work.begin()
    outcome = _paths(request) if request.paths else _stdin(request)
    sys.stdout.flush()
    if any(finding.kind is Kind.ERROR for finding in outcome.findings):
        return 2
    return 1 if any(fails(each, outcome.findings, bool(outcome.changed)) for each in request.fail_on) else 0


def _paths(request: MigrationRequest) -> Outcome:
    root = find_root(request.paths)
    in_place = request.writes and request.output is None
    found = _put_back(root) if in_place else _tidied(root)
    workspace = Workspace.open(request.paths, request.scope)
    request = _for_nested(request, workspace)
    with progress_bar() as progress:
        outcome = migrate_named(workspace, request.paths, request.settings, request.workers, progress)
    if not workspace.files and not workspace.problems:
        note(f"no Python file in {', '.join(map(shown, request.paths))}")
    _tell_of_missing_classes(workspace, request.settings.keep_float32)
    _tell_of_missing_lines(workspace, request.settings.measured)
    outcome = replace(outcome, problems=(*outcome.problems, *found))
    if request.output is not None:
        outcome = apply_elsewhere(workspace, outcome, request.paths, request.output)
    elif in_place:
        outcome = apply_in_place(workspace, outcome, root)
    if request.diff:
        _print_changes(outcome)
    _print_edits(outcome)
    is_shown = request.form is Format.SARIF and not request.writes
    changes = tuple(changes_of(workspace, outcome)) if is_shown else ()
    to_stderr = request.diff or request.settings.explain
    _print_report(outcome, request, to_stderr=to_stderr, changes=changes, ignored=workspace.ignored)
    return outcome


def _for_nested(request: MigrationRequest, workspace: Workspace) -> MigrationRequest:
    """The same, with what folders declare for themselves."""
    if request.target_folder is None:
        return request
    below, ancient = declared_below(request.target_folder, workspace.files)
    nested = {folder: nearest_possible(each.version) for folder, each in below.items()}
    asked = {
        f"{written(nested[folder])} by {each.text} in {shown(each.file)}"
        + (" (which has to be raised to that)" if each.is_to_be_raised else "")
        for folder, each in below.items()
        if nested[folder] != request.settings.target_torch or each.is_to_be_raised
    }
    oldest = min(nested.values(), default=request.settings.target_torch)
    if why_not := request.settings.too_new_for(oldest):
        raise click.UsageError(
            f"{why_not} ({plain(min(below.values()).text)} is asked for; --target-torch takes another)"
        )
    own = plain(f"folders have their own target: {_listed(sorted(asked))}") if asked else ""
    raised = _listed([each.asking(shown(each.file)) for each in ancient])
    said = "; ".join(filter(None, (request.target_said, own, raised)))
    return replace(request, settings=replace(request.settings, nested_torch=nested), target_said=said)


def _listed(texts: Sequence[str]) -> str:
    """The first of some texts."""
    return ", ".join([*texts[:_MOST_NESTED], *(["..."] if len(texts) > _MOST_NESTED else [])])


def _stdin(request: MigrationRequest) -> Outcome:
    outcome = _migrated_stdin(request)
    if request.diff:
        _print_changes(outcome)
    _print_edits(outcome)
    if request.writes and not outcome.problems:
        for each in outcome.plans:
            sys.stdout.buffer.write(each.source.encode(each.after))
    _print_report(outcome, request, to_stderr=True)
    return outcome


def _migrated_stdin(request: MigrationRequest) -> Outcome:
    """The plan of standard input; none, so that an editor does not take it for the result, if it cannot be read."""
    path = Path(request.stdin_name)
    try:
        source = read_source(sys.stdin.buffer.read(), path)
    except SourceError as error:
        return Outcome((), (unreadable(display_name(path), error),), 1)
    from amp_migrate.engine.migrate import migrate_source  # loads LibCST

    plan = migrate_source(source, request.settings)
    errors = tuple(finding for finding in plan.findings if finding.kind is Kind.ERROR)
    return Outcome((plan,), errors, 1)


def _put_back(root: Path) -> list[Finding]:
    """Put back what killed runs left half done, and say so."""
    restored = recover(root)
    _tell_of_strays(restored.strays)
    if restored.files:
        note(f"an earlier run was killed half-way; {_files(len(restored.files))} put back")
    return [refused(shown(path), reason) for path, reason in restored.refused]


def _tidied(root: Path) -> list[Finding]:
    """Remove what killed runs left beside the files, and say so; a run that writes no file puts none back."""
    left = tidy(root)
    _tell_of_strays(left.strays)
    for tree in left.half_way:
        note(f"an earlier run was killed half-way; `{undo_command(tree)}` puts its files back")
    return []


def _tell_of_strays(count: int) -> None:
    if count:
        note(f"removed {count} temporary file{'s' if count > 1 else ''} of a run that was killed")


def _tell_of_missing_classes(workspace: Workspace, names: tuple[str, ...]) -> None:
    for name in names:
        defined = re.compile(rf"^[ \t]*class[ \t]+{name}\b", re.MULTILINE)
        if not any(defined.search(each.text) for each in workspace.mentioning("class", name)):
            note(f"--keep-float32 {name}: no class of that name here")


def _tell_of_missing_lines(workspace: Workspace, measured: tuple[Measured, ...]) -> None:
    """Tell of lines that have changed since they were measured; those of files that are not here are not asked for."""
    for each in measured:
        source = workspace.file(Path(each.file))
        if source is not None and not each.is_in(source.text):
            note(f"--profile: {source.name}:{each.line} is another line by now; measure the script again")


def _files(count: int) -> str:
    return "1 of its files was" if count == 1 else f"{count} of its files were"


def _print_report(
    outcome: Outcome,
    request: MigrationRequest,
    *,
    to_stderr: bool,
    changes: tuple[tuple[FileChange, ...], ...] = (),
    ignored: tuple[int, int] = (0, 0),
) -> None:
    changed = tuple(each.source.name for each in outcome.changed)
    findings = outcome.findings
    rules = _rules_of({finding.code for finding in findings})
    torch = request.settings.target_torch
    # An older target may be why a name stays; the default concerns who gets something written.
    is_older = min((torch, *request.settings.nested_torch.values())) < DEFAULT_TORCH
    said = request.target_said if changed or is_older else ""
    target = OldestTorch(written(torch), said)
    counted = {what.value: number for what, number in work.done().items()} if request.statistics else {}
    report = Report(findings, outcome.files, changed, request.writes, rules, target, counted, changes, ignored)
    if request.quiet:
        errors = replace(report, findings=report.of_kind(Kind.ERROR))
        sys.stderr.write("".join(f"{line}\n" for line in places(errors)))
        return
    stream = sys.stderr if to_stderr else sys.stdout
    if request.settings.prove:
        _print_checks(outcome, stream if request.form is Format.TEXT else sys.stderr)
    stream.write(render(report, request.form))


def _rules_of(codes: Collection[str]) -> tuple[Rule, ...]:
    """The rules with these codes; all of them are loaded where there is one."""
    if not codes:
        return ()
    from amp_migrate.rulebook import rules_of

    return rules_of(codes)


def _print_checks(outcome: Outcome, stream: TextIO) -> None:
    """Print what was checked of each file that changes."""
    for each in outcome.changed:
        said = ", ".join(each.checked) or "nothing: it is written for a newer Python than the one that runs here"
        stream.write(f"{plain(each.source.name)}: checked: {said}\n")


def _print_edits(outcome: Outcome) -> None:
    """Print what was put into words of each file that changes."""
    sys.stdout.writelines(plain(f"{edit}\n", keep="\n\t") for each in outcome.changed for edit in each.edits)


def _print_changes(outcome: Outcome) -> None:
    sources = ((each.source, each.after) for each in outcome.changed)
    print_changes((old.path, old.name, old.encode(old.text), old.encode(after)) for old, after in sources)
