"""`amp-verify tune`: a ranked table of ways to run a script faster, and the largest batch that fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from amp_migrate.settings import Dtype
from amp_migrate.verify.commands.verify import has_failed, pool_with
from amp_migrate.verify.experiments import faster
from amp_migrate.verify.experiments.faster import PLACE, Timed
from amp_migrate.verify.judge.statistics.speed import CLAIMED
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.options import TuneRequest
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.target import Target, target
from amp_migrate.verify.usage import UsageError

SCHEMA = "amp-migrate/tune/1"
_LOOK_STEPS = 5


def tune_script(request: TuneRequest) -> int:
    """Time the ways and print the table; returns the exit status."""
    if request.arg is not None and PLACE not in request.arg:
        raise UsageError(f"--arg {request.arg}: put {PLACE} where the batch size goes: '--batch-size {PLACE}'")
    original = target(request.original, prepare.interpreter(request.python), module=request.module)
    require_writable({"--json": request.json})
    with scratch(request.work) as own:
        migrated = _migrated(original, Dtype(request.dtype) if request.dtype else None, own.folder)
        scripts = {Arm.ORIGINAL: original, Arm.MIGRATED: migrated or original}
        pool = pool_with(request, scripts, own.folder, steps=_LOOK_STEPS, timing_steps=request.timing_steps)
        look = Run(Arm.ORIGINAL, census=True)
        pool.make([look])
        first = pool.results[look]
        if has_failed(first):
            own.keep = True
            return Verdict.ORIGINAL_FAILED.value
        if request.arg is not None and first.trace.stand_in:
            raise UsageError("--arg: the largest batch that fits is looked for on a GPU; there is none here")
        ranked = faster.timed(pool, faster.ways(first.trace, migrated is not None), request.timing_runs)
        batch = faster.largest_batch(pool, request.arg, request.start) if request.arg is not None else None
        click.echo("".join(f"{line}\n" for line in lines(first.trace, ranked, batch)), nl=False)
        if request.json is not None:
            write("--json", request.json, as_json(first.trace, ranked, batch))
        return 0


def _migrated(original: Target, dtype: Dtype | None, folder: Path) -> Target | None:
    """The script's migration; None where there is nothing in it to be migrated."""
    try:
        return prepare.migrate(original, dtype, folder / "migrated")[0]
    except UsageError:
        return None


def lines(seen: Trace, ranked: tuple[Timed, ...], batch: int | None) -> Iterator[str]:
    """The table, the fastest way first."""
    if seen.stand_in:
        yield "no GPU: times are this processor's; precision, torch.compile and memory are left to one"
    measured = [one for one in ranked if one.speed is not None]
    if measured and measured[0].speed is not None:
        yield f"as it is: {measured[0].speed.original_ms:.2f} ms per step"
    width = max(len(one.way.name) for one in ranked)
    for one in ranked:
        yield f"  {one.way.name:{width}}  {_told(one)}"
    if batch is not None:
        yield f"largest batch that fits: {batch or 'none of those tried'}"


def _told(one: Timed) -> str:
    if one.speed is None:
        return f"failed: {one.failure}"
    speed = one.speed
    if speed.noisy:
        return f"{speed.migrated_ms:8.2f} ms; the machine is too busy to claim a ratio"
    words = f"{speed.migrated_ms:8.2f} ms  {speed.ratio:.2f} times as fast"
    if speed.low is not None and speed.high is not None:
        words += f" ({speed.low:.2f} to {speed.high:.2f})"
        words += "" if speed.low > CLAIMED else "; no gain is claimed"
    return words if one.memory is None else f"{words}, {one.memory.ratio:.2f} times the memory"


def as_json(seen: Trace, ranked: tuple[Timed, ...], batch: int | None) -> str:
    """The table and where it was measured. `null` is what was not."""
    document = {
        "schema": SCHEMA,
        "environment": dict(seen.environment),
        "ways": [
            {
                "name": one.way.name,
                "speed": asdict(one.speed) if one.speed is not None else None,
                "memory": asdict(one.memory) if one.memory is not None else None,
                "failure": one.failure,
            }
            for one in ranked
        ],
        "largest_batch": batch,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
