"""One verification, from what the user asked for to its verdict and reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from amp_migrate.report.finding import Finding
from amp_migrate.report.report import told
from amp_migrate.settings import Dtype
from amp_migrate.verify.experiments.ladder import climb, train_whole
from amp_migrate.verify.judge.programs.equality import shown_before
from amp_migrate.verify.judge.statistics.convergence import SPREADS, STRICT_SPREADS, Tolerance
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.options import PULL_REQUEST, Comparing, Request, Running
from amp_migrate.verify.reports import as_github, as_json, as_junit, as_pull_request, as_text
from amp_migrate.verify.reports.live import Live
from amp_migrate.verify.reports.outcome import Outcome
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import folders, forks, prepare
from amp_migrate.verify.runs.cache import open_cache
from amp_migrate.verify.runs.checkouts import apart
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.setup import Setup
from amp_migrate.verify.runs.target import Target, target
from amp_migrate.verify.usage import UsageError

_HALF = {"fp16": "float16", "bf16": "bfloat16"}


def verify(request: Request) -> int:
    """Run the scripts, show the verdict and write the reports; returns the exit status."""
    prepare.can_report(request.report)
    prepare.interpreter(request.python)
    require_writable({"--json": request.json, "--report": request.report, "--junit": request.junit})
    with scratch(request.work) as own:
        outcome = _outcome(request, own.folder)
        own.keep = outcome.assessment.verdict is not Verdict.PASS
        if request.form == PULL_REQUEST:
            click.echo(as_pull_request.render(outcome), nl=False)
        else:
            as_text.show(outcome)
        _write_files(request, outcome)
        return outcome.assessment.verdict.value


def _outcome(request: Request, folder: Path) -> Outcome:
    began = datetime.now().astimezone()
    pool, findings = pool_of(
        request,
        folder,
        (request.report, request.junit),
        whole_steps=request.train_steps,
        timing_steps=request.timing_steps,
        metrics=prepare.pattern(request.metrics),
        resume=prepare.resume_words(request.resume_args, request.launch),
    )
    evidence = climb(pool, request.timing_runs)
    can_run(evidence.original)
    limits = Limits(request.min_speedup, request.max_memory_ratio)
    tolerance = Tolerance(STRICT_SPREADS if request.strict else SPREADS, request.tolerance)
    assessment = assess(evidence, limits, tolerance)
    if request.seeds and assessment.verdict in (Verdict.PASS, Verdict.TOO_SLOW):
        evidence = train_whole(pool, evidence, request.seeds, tolerance, lambda line: click.echo(line, err=True))
        assessment = assess(evidence, limits, tolerance)
    if pool.setup.made_here:
        assessment = replace(assessment, checks=tuple(map(shown_before, assessment.checks)))
    return Outcome(
        pool.setup,
        evidence,
        assessment,
        findings=findings,
        command=request.typed,
        date=began.strftime("%Y-%m-%d %H:%M %Z"),
    )


def can_run(result: RunResult) -> None:
    """Raise UsageError where the recorder would not run the script at all."""
    if result.trace.refused:
        raise UsageError(result.trace.refused)


def pool_of(
    request: Comparing, folder: Path, written: Sequence[str | None], **fields: Any
) -> tuple[Pool, tuple[Finding, ...]]:
    """What makes the runs of both scripts, with what the migration had to say where it was made here.

    Args:
        folder: for the migrated script and the runs.
        written: the reports that will be written, which a cache is to overlook.
        fields: further ones of the set-up.
    """
    python = prepare.interpreter(request.python)
    original = target(request.original, python, module=request.module)
    if request.migrated is None:
        migrated, findings = prepare.migrate(
            original, Dtype(request.dtype) if request.dtype else None, folder / "migrated"
        )
        for finding in findings:
            click.echo(told(finding), err=True)
    else:
        original, migrated = apart(original, target(request.migrated, python, module=request.module))
        findings = ()
    return pool_for(request, original, migrated, folder, written, **fields), findings


def pool_for(
    request: Comparing, original: Target, migrated: Target, folder: Path, written: Sequence[str | None], **fields: Any
) -> Pool:
    """What makes the runs of two scripts; see `pool_of`."""
    pool = pool_with(
        request,
        {Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
        folder,
        steps=request.steps or 0,
        seconds=request.seconds if request.steps is None else 0.0,
        dtype=_HALF.get(request.dtype or "", ""),
        **fields,
    )
    if request.cache is not None:
        ours = [folder, *(Path(os.path.abspath(path)) for path in (request.json, *written) if path is not None)]
        pool.cache = open_cache(prepare.cache(request.cache), pool.setup, pool.threads, ours)
    return pool


def pool_with(request: Running, scripts: dict[Arm, Target], folder: Path, **fields: Any) -> Pool:
    """What makes the runs of scripts, shown as they run; `fields`: those of the set-up that not all commands want."""
    live = Live()
    return Pool(_setup(request, scripts, folder, **fields), live.ended, running=live.running)


def has_failed(result: RunResult) -> bool:
    """Whether an original did not end well, which is told; raises UsageError where it cannot be run at all."""
    can_run(result)
    if not result.ended_well:
        click.echo(f"{Verdict.ORIGINAL_FAILED.name.replace('_', ' ')}: {result.complaint}")
    return not result.ended_well


def _setup(request: Running, scripts: dict[Arm, Target], folder: Path, **fields: Any) -> Setup:
    """The set-up that was asked for."""
    cwd, python = Path.cwd(), prepare.interpreter(request.python)
    if request.launch is None:  # what a launcher starts may be another interpreter
        prepare.require_torch(python)
    isolated = request.isolate == "always" or (request.isolate == "auto" and folders.copyable(cwd))
    forked = forks.possible() if request.fork is None else request.fork
    return Setup(
        scripts=scripts,
        arguments=request.arguments,
        python=python,
        launch=prepare.launcher(request.launch, python) if request.launch is not None else (),
        synthetic=request.synthetic_data,
        cwd=cwd,
        copy_cwd=isolated,
        scratch=folder,
        shim=prepare.shim_folder(),
        device=request.device,
        timeout=request.timeout,
        jobs=prepare.jobs(request.jobs, isolated, request.device),
        forked=forked and request.launch is None,
        **fields,
    )


def _write_files(request: Request, outcome: Outcome) -> None:
    if annotation := as_github.tell(outcome, os.environ):
        click.echo(annotation)
    if request.junit is not None:
        write("--junit", request.junit, as_junit.render(outcome))
    if request.json is not None:
        write("--json", request.json, as_json.render(outcome))
    if request.report is not None:
        from amp_migrate.verify.reports import as_html  # imports matplotlib

        if write("--report", request.report, as_html.render(outcome)):
            click.echo(f"report: {request.report}", err=True)
