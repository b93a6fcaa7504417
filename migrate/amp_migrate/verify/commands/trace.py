"""`amp-verify trace`: which operation runs in which dtype, where the time goes, and a trace to open in Perfetto."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from amp_migrate.verify.commands.verify import has_failed, pool_with
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.options import TraceRequest
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.target import target

CENSUS_STEPS = 3  # the recorder counts over these, and profiles the steps after them


def trace(request: TraceRequest) -> int:
    """Run the script for a few steps and show what ran; returns the exit status."""
    script = target(request.original, prepare.interpreter(request.python), module=request.module)
    require_writable({"--output": request.output})
    with scratch(request.work) as own:
        pool = pool_with(
            request, dict.fromkeys(Arm, script), own.folder, steps=CENSUS_STEPS + request.steps, timing_steps=0
        )
        run = Run(Arm.ORIGINAL, census=True, profile=True)
        pool.make([run])
        result = pool.results[run]
        if has_failed(result):
            return Verdict.ORIGINAL_FAILED.value
        if not result.trace.profile.path:
            click.echo(f"VACUOUS: {len(result.trace.steps)} optimizer steps; at least {CENSUS_STEPS + 1} are needed")
            return Verdict.VACUOUS.value
        click.echo("".join(f"{line}\n" for line in tables(result.trace)), nl=False)
        if write("--output", request.output, Path(result.trace.profile.path).read_bytes()):
            click.echo(f"trace: {request.output}; open it at https://ui.perfetto.dev", err=True)
        return 0


def tables(trace: Trace) -> Iterator[str]:
    """Calls of each operation by the dtype of its result, and the operations that took the longest."""
    dtypes = sorted({dtype for _, dtype, _ in trace.census})
    counts: dict[str, dict[str, int]] = {}
    for operation, dtype, count in trace.census:
        counts.setdefault(operation, {})[dtype] = count
    rows = [[name, *(str(found.get(dtype, "")) for dtype in dtypes)] for name, found in counts.items()]
    yield f"differentiable operations by the dtype of their result, over {CENSUS_STEPS} steps"
    yield from _aligned([["", *dtypes], *rows])
    yield ""
    total = trace.profile.total or 1.0
    where = "processor" if trace.stand_in else "GPU"
    yield f"operations by their own {where} time, over the steps after them"
    longest = [[name, f"{calls}", f"{us / 1e3:.2f} ms", f"{us / total:.0%}"] for name, calls, us in trace.profile.rows]
    yield from _aligned([["", "calls", "time", "share"], *longest])


def _aligned(rows: Iterable[list[str]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([f"  {first:{widths[0]}}", *cells]).rstrip()
