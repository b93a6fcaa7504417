"""`amp-verify localize`: which parts of a model must stay in float32, and what that costs."""

from __future__ import annotations

import click

from amp_migrate.verify.commands.verify import can_run, pool_of
from amp_migrate.verify.experiments.float32_parts import localize as find
from amp_migrate.verify.experiments.ladder import climb
from amp_migrate.verify.judge.verdict import Limits, Verdict, assess
from amp_migrate.verify.options import LocalizeRequest
from amp_migrate.verify.reports import as_localized
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs.scratch import scratch


def localize(request: LocalizeRequest) -> int:
    """Verify the scripts and, where they fail for precision, say where; returns the verdict's exit status."""
    require_writable({"--json": request.json, "--sarif": request.sarif})
    with scratch(request.work) as own:
        pool, _ = pool_of(request, own.folder, (request.sarif,), timing_steps=request.timing_steps)
        evidence = climb(pool, timing_pairs=0, thorough=True)
        can_run(evidence.original)
        assessment = assess(evidence, Limits())
        own.keep = assessment.verdict is not Verdict.PASS
        found = find(pool, evidence, assessment, request.timing_runs)
        click.echo(as_localized.text(found, assessment), nl=False)
        if request.json is not None:
            write("--json", request.json, as_localized.as_json(found, assessment))
        if request.sarif is not None:
            write("--sarif", request.sarif, as_localized.as_sarif(found, pool.setup))
        return assessment.verdict.value
