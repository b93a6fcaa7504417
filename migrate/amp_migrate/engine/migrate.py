"""A run without the disk's share: plan, check what was planned, and say what happened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from amp_migrate.catalog.apex_rules import APEX_INITIALIZE, APEX_STEP
from amp_migrate.catalog.step_rules import FP32_STEP, STEP_LEFT
from amp_migrate.engine.find.packages import Packages
from amp_migrate.engine.imports.import_graph import ImportGraph
from amp_migrate.engine.imports.imports_of_text import imported_modules
from amp_migrate.engine.notebooks.notebook import SUFFIX
from amp_migrate.engine.outcome import FilePlan, Outcome, together, without_refused
from amp_migrate.engine.parsed_files import Parsed, ParsedLibrary
from amp_migrate.engine.parts.garbage import collected_later
from amp_migrate.engine.planner import plan
from amp_migrate.engine.problems import OUR_FAULT, PLEASE_REPORT, failure, in_the_file, refused
from amp_migrate.engine.results.check_text import Refused, check_text
from amp_migrate.engine.results.examined import Examined
from amp_migrate.engine.results.float_casts import with_casts
from amp_migrate.engine.results.needless_casts import without_casts
from amp_migrate.engine.results.proof import checks_of, refuted
from amp_migrate.engine.results.worse_numerics import LEFT_AS_IT_WAS, worse_numerics
from amp_migrate.engine.source import Source
from amp_migrate.engine.texts.layout import LayoutError, restore
from amp_migrate.engine.texts.parse import parse
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.programs import Programs
from amp_migrate.hazards.numbers.amp627_tiny_epsilon import RULE as TINY_EPSILON
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.repository import repository
from amp_migrate.settings import Settings, Withdrawn

_ONCE_RELEASED = "give its calls the new arguments by hand once it installs a version that takes them"
_ONCE_WRITTEN = "migrate the file that the cell writes, and put what becomes of it into the cell"
# What a cast mends may show what is behind it.
_ROUNDS = 8


def migrate(paths: Sequence[Path], settings: Settings) -> Outcome:
    """Plan the migration of all Python files below `paths`. Reads the disk, writes nothing."""
    return migrate_workspace(Workspace.open(paths), settings)


def migrate_text(text: str, settings: Settings, name: str = "<stdin>") -> FilePlan:
    """Plan the migration of one text on its own, as if no other file could be seen.

    A text that does not parse gives a plan that changes nothing and has a finding of kind `ERROR`.
    """
    return migrate_source(Source(Path(name), name, text), settings)


def migrate_source(source: Source, settings: Settings) -> FilePlan:
    """Like `migrate_text`, for a text whose encoding is known."""
    outcome = migrate_workspace(Workspace.of_text(source), settings)
    return outcome.plan_of(source.path) or FilePlan(source, source.text, outcome.findings)


def migrate_file(path: Path, settings: Settings) -> Outcome:
    """Plan the migration of one script, of the modules of its repository that it imports, and of their other callers.

    The outcome's plans are those of the script (`plan_of(path)`) and of every other file that changes with it.
    """
    workspace = workspace_of(path)
    if workspace.file(path) is None:
        return Outcome((), workspace.problems, 1)
    return migrate_workspace(workspace, settings)


def workspace_of(path: Path) -> Workspace:
    """The files that one script is migrated with.

    Outside of every repository, modules are those of the script's folder, or of the one that its outermost package is
    in.
    """
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    workspace = Workspace.open([path, repository(top) or top])
    script = workspace.file(path)
    return workspace if script is None else workspace.focused(ImportGraph(workspace).reachable(script.path))


def migrate_workspace(
    workspace: Workspace, settings: Settings, parsed: Parsed | None = None, examined: Examined | None = None
) -> Outcome:
    """Plan, check, and leave out what does not pass together with the files that changed for its sake.

    Args:
        parsed: files that need not be parsed again; those that had to be are added.
        examined: what was found in the files of this workspace, and in results like those to come.
    """
    parsed = {} if parsed is None else parsed
    examined = examined or Examined(workspace, settings.target_torch, packages=Packages(settings.environment))
    with collected_later():
        planned, failures = _plan_what_can_be(workspace, settings, parsed, examined.programs)
        outcome = Outcome(planned, (*workspace.problems, *failures), len(workspace.files))
        plans, wrong = _checked(outcome.plans, parsed)
        withdrawn = _withdrawn(workspace, outcome, wrong, settings.withdrawn)
        outcome = without_refused(workspace, replace(outcome, plans=plans), wrong)
        numerics = worse_numerics(workspace, outcome.plans, settings, examined)
        if numerics.again != settings:
            return migrate_workspace(workspace, numerics.again, parsed, examined)
        library = ParsedLibrary(workspace, parsed, settings.target_torch)
        for _ in range(_ROUNDS):
            wishes = (numerics.at_first, numerics.in_float32)
            casts = (with_casts(workspace, outcome.plans, each, settings, library) for each in wishes)
            cast = next(filter(None, casts), ())
            if not cast:
                break
            plans, wrong = _checked(cast, parsed)
            outcome = without_refused(workspace, _with_plans(outcome, plans), wrong)
            numerics = worse_numerics(workspace, outcome.plans, settings, examined, numerics.in_float32.values())
            if numerics.again != settings:  # what only a result with casts shows, which hides nothing else then
                return migrate_workspace(workspace, numerics.again, parsed, examined)
        if numerics.at_last != settings:
            return migrate_workspace(workspace, numerics.at_last, parsed, examined)
        withdrawn += _withdrawn(workspace, outcome, numerics.left, settings.withdrawn)
        plans, wrong = _checked(without_casts(workspace, outcome.plans, numerics.needless()), parsed)
        if not wrong:
            outcome = _with_plans(outcome, plans)
        outcome = without_refused(workspace, outcome, numerics.left)
        outcome = _with_told(_without_guarded(outcome, numerics.guarded), numerics.told)
        wrong = refuted(workspace, outcome.changed, settings)
        withdrawn += _withdrawn(workspace, outcome, wrong, settings.withdrawn)
        outcome = without_refused(workspace, outcome, wrong)
        if settings.prove:
            outcome = replace(outcome, plans=tuple(map(_checked_by_proof, outcome.plans)))
        unknown = {each.of for each in withdrawn} - {each.of for each in settings.withdrawn}
        # A region round a call is the first to go: a script that evaluates in float32 is better than one on the shim.
        inside = {path for rule, path, _ in unknown if rule == APEX_STEP.code} - settings.evaluated_inside
        if inside:
            again = replace(settings, evaluated_inside=settings.evaluated_inside | inside)
            return migrate_workspace(workspace, again, parsed, examined)
        if unknown:
            again = replace(settings, withdrawn=(*settings.withdrawn, *withdrawn))
            return _with_faults(migrate_workspace(workspace, again, parsed, examined), outcome.problems)
        if settings.applies(STEP_LEFT.code):
            beside = (*_of_notebooks_apart(workspace, outcome), *_of_written_scripts(workspace, settings))
            outcome = replace(outcome, problems=(*outcome.problems, *beside))
    return replace(outcome, plans=tuple(map(_told_in_the_file, outcome.plans)))


def _of_notebooks_apart(workspace: Workspace, outcome: Outcome) -> Iterator[Finding]:
    """A finding for each notebook that imports what changes, and installs it in another version."""
    changed = {each.source.path for each in outcome.changed}
    if not changed or not any(path.suffix == SUFFIX for path in workspace.files):
        return
    for source in workspace.mentioning("pip", "install"):
        for dotted in imported_modules(source.text):
            if workspace.installs(dotted, source.path) and workspace.beside(dotted, source.path) in changed:
                package = dotted.partition(".")[0]
                message = (
                    f"what it does with {package} left as it was: it installs {package}, and not what changes here"
                )
                yield Finding(source.name, 0, 0, STEP_LEFT.code, Kind.LEFT, message, _ONCE_RELEASED)
                break


def _of_written_scripts(workspace: Workspace, settings: Settings) -> Iterator[Finding]:
    """A finding for each script that a notebook writes from a cell, and of which there would be something to say."""
    for notebook in workspace.writing_notebooks():
        for each in notebook.written:
            plan = migrate_text(each.text, settings, each.name)
            if plan.changed or any(finding.kind is Kind.LEFT for finding in plan.findings):
                message = (
                    f"cell {each.cell}, line 1: {each.name} left as it was: to the notebook it is text that it writes"
                )
                yield Finding(notebook.name, each.line, 1, STEP_LEFT.code, Kind.LEFT, message, _ONCE_WRITTEN)


def _withdrawn(
    workspace: Workspace, outcome: Outcome, wrong: Mapping[Path, Finding], known: Iterable[Withdrawn]
) -> tuple[Withdrawn, ...]:
    """What another plan has to know of the steps in what is left.

    Apex steps, and float32 steps: old names, which are no part of a step, are replaced whatever becomes of it, and a
    hazard of a step that moves is none of one that stays. Apex steps in files that belong together with what is wrong
    stay for its sake only where no other plan can do without that: the shim may serve them, for Apex itself is gone.

    Args:
        known: what the plans here knew already.
    """
    moved = {
        each.source: {told.code for told in each.findings if told.kind is Kind.MIGRATED} for each in outcome.changed
    }
    old = {each.of for each in known}
    found: list[Withdrawn] = []
    for plans in together(workspace, outcome.changed) if wrong else ():
        group = [each.source for each in plans]
        causes = sorted((wrong[each.path] for each in group if each.path in wrong), key=lambda each: each.path)
        has_others = any(moved[each] - {FP32_STEP.code} for each in group)
        apex = [each for each in group if moved[each] & {APEX_STEP.code, APEX_INITIALIZE.code}]
        own: list[Withdrawn] = []
        for source in (each for each in group if each.path in wrong):
            why = wrong[source.path]
            if source in apex:
                own.append(_reason(APEX_STEP.code, source, why))
            elif why.code == STEP_LEFT.code or (why.hint == PLEASE_REPORT and FP32_STEP.code in moved[source]):
                own.append(_reason(FP32_STEP.code, source, why))
        found += own
        if causes and {each.of for each in own} <= old:
            found += (_reason(APEX_STEP.code, each, causes[0]) for each in apex if each.path not in wrong)
            beside = (each for each in group if has_others and FP32_STEP.code in moved[each] and each.path not in wrong)
            found += (_reason(FP32_STEP.code, each, causes[0]) for each in beside)
    return tuple(sorted(found))


def _reason(code: str, source: Source, why: Finding) -> Withdrawn:
    """What is withdrawn of a file, for something that is wrong in it, or in another that belongs to it."""
    reason = why.message.removeprefix(LEFT_AS_IT_WAS)
    hint = OUR_FAULT if why.hint == PLEASE_REPORT else why.hint
    return Withdrawn(code, source.name, reason if why.path == source.name else f"{why.path}: {reason}", hint)


def _with_plans(outcome: Outcome, plans: Iterable[FilePlan]) -> Outcome:
    """`outcome` with other plans for some files."""
    new = {each.source: each for each in (*outcome.plans, *plans)}
    kept = (each for each in new.values() if each.changed or each.findings)
    return replace(outcome, plans=tuple(sorted(kept, key=lambda each: each.source.name)))


def _without_guarded(outcome: Outcome, guarded: Collection[tuple[str, int]]) -> Outcome:
    """`outcome` without what is said of tiny numbers at lines where the results are not shown to have that low."""

    def kept(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(e for e in findings if e.code != TINY_EPSILON.code or (e.path, e.line) not in guarded)

    plans = (replace(each, findings=kept(each.findings)) for each in outcome.plans)
    return replace(outcome, plans=tuple(e for e in plans if e.changed or e.findings), problems=kept(outcome.problems))


def _with_told(outcome: Outcome, told: Iterable[Finding]) -> Outcome:
    """`outcome` with what is said beside its plans: with the plan of the file, or where there is none, by itself."""
    by_file: dict[str, list[Finding]] = {}
    for each in told:
        by_file.setdefault(each.path, []).append(each)
    plans = tuple(
        replace(each, findings=tuple(sorted((*each.findings, *by_file.pop(each.source.name, ())))))
        for each in outcome.plans
    )
    return replace(
        outcome, plans=plans, problems=(*outcome.problems, *(each for rest in by_file.values() for each in rest))
    )


def _with_faults(outcome: Outcome, problems: Iterable[Finding]) -> Outcome:
    """`outcome` with the faults of this tool for which steps were left in it, each in place of what says that."""
    left = {each.path for each in outcome.findings if _is_left_for_fault(each)}
    changed = {each.source.name for each in outcome.changed}
    mine = [each for each in problems if each.hint == PLEASE_REPORT and each.path in left]
    faults = [replace(each, hint=OUR_FAULT) if each.path in changed else each for each in mine]
    told = {each.path for each in faults}

    def kept(each: FilePlan) -> FilePlan:
        is_told = each.source.name in told
        return replace(each, findings=tuple(e for e in each.findings if not (is_told and _is_left_for_fault(e))))

    plans = tuple(each for each in map(kept, outcome.plans) if each.changed or each.findings)
    return replace(outcome, plans=plans, problems=(*outcome.problems, *faults))


def _is_left_for_fault(finding: Finding) -> bool:
    return finding.code == STEP_LEFT.code and finding.hint == OUR_FAULT


def _told_in_the_file(each: FilePlan) -> FilePlan:
    return replace(each, findings=tuple(in_the_file(each.source, finding) for finding in each.findings), planned=())


def _checked_by_proof(each: FilePlan) -> FilePlan:
    return replace(each, checked=checks_of(each) if each.changed else ())


def _plan_what_can_be(
    workspace: Workspace, settings: Settings, parsed: Parsed, programs: Programs
) -> tuple[tuple[FilePlan, ...], list[Finding]]:
    """All plans; where a file makes the planner fail, those of the others and a finding for it."""
    try:
        return plan(workspace, settings, parsed, programs), []
    except Exception as error:
        first = error
    sound: list[Source] = []
    failures: list[Finding] = []
    for source in list(workspace.candidates()):
        try:
            plan(workspace.focused([source.path]), settings, parsed, programs)
            sound.append(source)
        except Exception as error:
            failures.append(failure(source.name, error))
    try:
        return plan(workspace.focused(source.path for source in sound), settings, parsed, programs), failures
    except Exception:
        # Each file is sound on its own, only the project as a whole is not: nothing can be said to be safe.
        return (), failures + [failure(source.name, first) for source in sound]


def _checked(plans: Iterable[FilePlan], parsed: Parsed) -> tuple[tuple[FilePlan, ...], dict[Path, Finding]]:
    """The plans with their texts as they would be written, and a finding for each whose text is not fit for it."""
    done: list[FilePlan] = []
    wrong: dict[Path, Finding] = {}
    for each in plans:
        if each.changed:
            source = each.source
            try:
                printed = parsed[source].tree.printed() if source in parsed else parse(source).code
                after = restore(source.text, printed, each.after)
                check_text(source, after)
                done.append(replace(each, after=after))
                continue
            except LayoutError as error:
                hint = "write it without a line continuation or a form feed before a statement, and run again"
                wrong[source.path] = in_the_file(
                    source, replace(refused(source.name, str(error), hint), line=error.line)
                )
            except Refused as error:
                wrong[source.path] = _refusal(source, str(error))
        done.append(each)
    return tuple(done), wrong


def _refusal(source: Source, message: str) -> Finding:
    return refused(source.name, f"internal: {message}", PLEASE_REPORT)
