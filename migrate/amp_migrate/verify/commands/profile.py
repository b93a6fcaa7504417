"""`amp-verify profile`: the range of what a script computes in float32, kept for `amp-migrate --profile`."""

from __future__ import annotations

import json
import shlex

import click

from amp_migrate.verify.commands.verify import has_failed, pool_with
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.options import ProfileRequest
from amp_migrate.verify.reports.as_json import ranges
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.target import target

SCHEMA = "amp-migrate/profile/1"
_RUN = Run(Arm.ORIGINAL, amp_off=True, census=True, ranges=True)


def profile(request: ProfileRequest) -> int:
    """Run the script once and write the ranges of its lines; returns the exit status."""
    script = target(request.original, prepare.interpreter(request.python), module=request.module)
    require_writable({"--output": request.output})
    with scratch(request.work) as own:
        pool = pool_with(request, dict.fromkeys(Arm, script), own.folder, steps=request.steps, timing_steps=0)
        pool.make([_RUN])
        result = pool.results[_RUN]
        if has_failed(result):
            own.keep = True
            return Verdict.ORIGINAL_FAILED.value
        found = ranges(result.trace.ranges, pool.setup)
        if not found:
            click.echo(f"{Verdict.VACUOUS.name}: nothing was seen that the script's own lines compute in float32")
            return Verdict.VACUOUS.value
        document = {"schema": SCHEMA, "environment": dict(result.trace.environment), "ranges": found}
        if write("--output", request.output, json.dumps(document, indent=2, ensure_ascii=False) + "\n"):
            lines = len({(each["file"], each["line"]) for each in found})
            click.echo(
                f"the ranges of {lines} line{'s' if lines > 1 else ''} over {len(result.trace.steps)} optimizer steps: "
                f"{request.output}; `amp-migrate --profile {shlex.quote(request.output)} .` keeps in float32 what "
                "leaves float16's range",
                err=True,
            )
        return 0
