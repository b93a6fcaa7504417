"""One verification, from what the user asked for to its verdict and reports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from amp_migrate.settings import Dtype
from amp_migrate.verify import as_github, as_json, as_junit, as_text, fault, folders, forks, prepare
from amp_migrate.verify.cache import open_cache
from amp_migrate.verify.convergence import SPREADS, STRICT_SPREADS, Tolerance
from amp_migrate.verify.ladder import climb, train_whole
from amp_migrate.verify.options import Request, Running
from amp_migrate.verify.outcome import Outcome
from amp_migrate.verify.plan import Arm
from amp_migrate.verify.pool import Pool
from amp_migrate.verify.setup import Setup
from amp_migrate.verify.target import Target, target
from amp_migrate.verify.usage import UsageError
from amp_migrate.verify.verdict import Limits, Verdict, assess


def verify(request: Request) -> int:
    """Run the scripts, show the verdict and write the reports; returns the exit status."""
    prepare.can_report(request.report)
    prepare.interpreter(request.python)
    scratch = prepare.scratch(request.work)
    keep = True
    try:
        outcome = _outcome(request, scratch)
        keep = request.work is not None or outcome.assessment.verdict is not Verdict.PASS
        as_text.show(outcome)
        _write_files(request, outcome)
        return outcome.assessment.verdict.value
    except UsageError:
        keep = request.work is not None
        raise
    except Exception as error:
        fault.keep(error, scratch)
        raise
    finally:
        if keep:
            click.echo(f"logs and traces: {scratch}", err=True)
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def _outcome(request: Request, scratch: Path) -> Outcome:
    python = prepare.interpreter(request.python)
    original = target(request.original, python, module=request.module)
    if request.migrated is None:
        migrated, findings = prepare.migrate(original, Dtype(request.dtype), scratch / "migrated")
        for finding in findings:
            click.echo(finding, err=True)
    else:
        migrated, findings = target(request.migrated, python, module=request.module), ()
    setup = setup_of(
        request,
        {Arm.ORIGINAL: original, Arm.MIGRATED: migrated},
        scratch,
        steps=request.steps,
        whole_steps=request.train_steps,
        timing_steps=request.timing_steps,
    )
    pool = Pool(setup, lambda result: click.echo(as_text.progress(result), err=True))
    if request.cache is not None:
        folder = prepare.cache(request.cache)
        written = (request.json, request.report, request.junit)
        ours = [scratch, *(Path(os.path.abspath(path)) for path in written if path is not None)]
        pool.cache = open_cache(folder, setup, pool.threads, ours)
    evidence = climb(pool, request.timing_runs)
    if evidence.original.trace.refused:
        raise UsageError(evidence.original.trace.refused)
    limits = Limits(request.min_speedup, request.max_memory_ratio)
    tolerance = Tolerance(STRICT_SPREADS if request.strict else SPREADS, request.tolerance)
    assessment = assess(evidence, limits, tolerance)
    if request.seeds and assessment.verdict in (Verdict.PASS, Verdict.TOO_SLOW):
        evidence = train_whole(pool, evidence, request.seeds, tolerance)
        assessment = assess(evidence, limits, tolerance)
    return Outcome(setup, evidence, assessment, findings)


def setup_of(request: Running, scripts: dict[Arm, Target], scratch: Path, **steps: int) -> Setup:
    """The set-up that was asked for; `steps`: its fields that count steps."""
    cwd, python = Path.cwd(), prepare.interpreter(request.python)
    isolated = request.isolate == "always" or (request.isolate == "auto" and folders.copyable(cwd))
    forked = forks.possible(request.device) if request.fork is None else request.fork
    return Setup(
        scripts=scripts,
        arguments=request.arguments,
        python=python,
        launch=prepare.launcher(request.launch, python) if request.launch is not None else (),
        synthetic=request.synthetic_data,
        cwd=cwd,
        copy_cwd=isolated,
        scratch=scratch,
        shim=prepare.shim_folder(),
        device=request.device,
        timeout=request.timeout,
        jobs=prepare.jobs(request.jobs, isolated, request.device),
        forked=forked and request.launch is None,
        **steps,
    )


def _write_files(request: Request, outcome: Outcome) -> None:
    if annotation := as_github.tell(outcome, os.environ):
        click.echo(annotation)
    if request.junit is not None:
        prepare.write("--junit", request.junit, as_junit.render(outcome))
    if request.json is not None:
        prepare.write("--json", request.json, as_json.render(outcome))
    if request.report is not None:
        from amp_migrate.verify import as_html  # imports matplotlib

        prepare.write("--report", request.report, as_html.render(outcome))
        click.echo(f"report: {request.report}", err=True)
