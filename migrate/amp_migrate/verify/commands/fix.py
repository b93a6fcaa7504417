"""`amp-verify fix`: migrate a script, verify it, and where precision fails write the smallest change that passes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from amp_migrate.engine.disk.apply import apply_in_place
from amp_migrate.engine.disk.journal import undo_command
from amp_migrate.engine.disk.tree import find_root
from amp_migrate.engine.migrate import workspace_of
from amp_migrate.engine.outcome import Outcome
from amp_migrate.engine.source import display_name, from_here
from amp_migrate.report.finding import Kind
from amp_migrate.report.forms.diff import unified
from amp_migrate.report.report import told
from amp_migrate.verify.commands.verify import can_run, pool_for
from amp_migrate.verify.experiments.attempts import Attempt, attempts
from amp_migrate.verify.experiments.float32_parts import Localised, localize
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.verdict import Assessment, Limits, Verdict, assess
from amp_migrate.verify.options import FixRequest
from amp_migrate.verify.reports import as_json
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.target import Target, target
from amp_migrate.verify.usage import UsageError

SCHEMA = "amp-migrate/fix/1"


@dataclass(frozen=True)
class Tried:
    """One way to write the migration, and how it was judged."""

    attempt: Attempt
    outcome: Outcome
    pool: Pool
    evidence: Evidence
    assessment: Assessment

    @property
    def passes(self) -> bool:
        return self.assessment.verdict is Verdict.PASS


def fix(request: FixRequest) -> int:
    """Try one way after the other until one passes, and write that one; returns its exit status, else the first's."""
    require_writable({"--json": request.json})
    with scratch(request.work) as own:
        # The original is the same in every attempt, and runs once.
        request = replace(request, cache=request.cache or str(own.folder / "original"))
        original = target(request.original, prepare.interpreter(request.python), module=request.module)
        plain = Attempt(("--dtype", request.dtype) if request.dtype else ())
        first = _try(request, original, plain, prepare.planned(original, plain.line), own.folder / "0")
        tries = [first]
        found = _found(first)
        profile = _profile(first, own.folder / "ranges.json")
        for number, attempt in enumerate(attempts(found, request.dtype, profile) if found else (), start=1):
            try:
                outcome = prepare.planned(original, attempt.line)
            except UsageError as error:  # what an older target of the project has no words for
                click.echo(f"{attempt.name}: {error}")
                continue
            if any(_texts(outcome) == _texts(each.outcome) for each in tries):
                continue
            click.echo(f"trying {attempt.name}: {attempt.why}", err=True)
            tries.append(_try(request, original, attempt, outcome, own.folder / str(number)))
            if tries[-1].passes:
                break
        best = tries[-1] if tries[-1].passes else tries[0]
        own.keep = not best.passes
        if best.passes:
            _write(request, original, best.outcome)
        else:
            click.echo(f"nothing was written; tried: {', '.join(each.attempt.name for each in tries)}")
            if advised := next_step(found, first.assessment):
                click.echo(f"next: {advised}")
        if request.json is not None:
            write("--json", request.json, document(tries))
        return best.assessment.verdict.value


def _found(first: Tried) -> Localised | None:
    """The parts that float32 is needed for; None where the first attempt failed for nothing that they could mend."""
    if first.assessment.verdict is not Verdict.FAIL:
        return None
    found = localize(first.pool, first.evidence, first.assessment, timing_pairs=0)
    if found.reason:
        click.echo(f"no part of a model to keep in float32: {found.reason}")
    return found


def next_step(found: Localised | None, first: Assessment) -> str:
    """What a person can do where nothing that can be written has passed; empty where nothing is known to help."""
    if found is not None and found.lines:
        lines = " and ".join(f"`{line}`" for line in found.lines)
        return f"the script passed with {lines} before the first call: keep_fp32 is of amp_shim.policy"
    if found is not None and found.bfloat16:
        return "the script passed in bfloat16: --dtype bf16"
    return first.advice


def _profile(first: Tried, file: Path) -> str:
    """Where the ranges of what the original computes are written."""
    document = {"ranges": as_json.ranges(first.evidence.ranges, first.pool.setup)}
    file.write_text(json.dumps(document), encoding="utf-8")
    return str(file)


def _texts(outcome: Outcome) -> dict[Path, str]:
    return {each.source.path: each.after for each in outcome.changed}


def _try(request: FixRequest, original: Target, attempt: Attempt, outcome: Outcome, folder: Path) -> Tried:
    folder.mkdir()
    migrated = prepare.laid_out(original, outcome, folder / "migrated")
    pool = pool_for(request, original, migrated, folder, (), timing_steps=request.timing_steps)
    evidence = climb(pool, request.timing_runs, thorough=True)
    can_run(evidence.original)
    tried = Tried(attempt, outcome, pool, evidence, assess(evidence, Limits()))
    click.echo(f"{attempt.name}: {tried.assessment.word}: {tried.assessment.sentence}")
    return tried


def _write(request: FixRequest, original: Target, outcome: Outcome) -> None:
    """Show what passes, and write it as `amp-migrate` would, to be taken back as its runs are."""
    for each in outcome.changed:
        name = display_name(from_here(each.source.path))
        diff = unified(each.source.encode(each.source.text), each.source.encode(each.after), name)
        click.echo(diff.decode("utf-8", "replace"), nl=False)
    if request.diff:
        return
    root = find_root([each.source.path for each in outcome.changed])
    written = apply_in_place(workspace_of(original.file), outcome, root)
    for finding in prepare.told_of(written):
        if finding.kind is Kind.ERROR:
            click.echo(told(finding), err=True)
    count = len(written.changed)
    click.echo(f"{count} file{'s' if count != 1 else ''} written; `{undo_command(root)}` takes it back")


def document(tries: Sequence[Tried]) -> str:
    """What was tried, in order, as JSON."""
    told = {
        "schema": SCHEMA,
        "tries": [
            {
                "options": each.attempt.name.split() if each.attempt.line else [],
                "why": each.attempt.why,
                "verdict": each.assessment.verdict.name,
                "exit_code": each.assessment.verdict.value,
                "sentence": each.assessment.sentence,
                "files": [plan.source.name for plan in each.outcome.changed],
            }
            for each in tries
        ],
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"
