"""`amp-verify doctor`: what a script can gain from mixed precision on this machine, and what keeps it from that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

import click

from amp_migrate.verify.causes.diagnosis import diagnose, waits_for_data
from amp_migrate.verify.causes.measured import WARM_UP, Diagnosis, Found, Measured, medians
from amp_migrate.verify.commands.verify import has_failed, pool_with
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.options import DoctorRequest
from amp_migrate.verify.recorded.kernels import read
from amp_migrate.verify.recorder.spec import ONE_BATCH
from amp_migrate.verify.reports.written import require_writable, write
from amp_migrate.verify.runs import prepare
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.scratch import scratch
from amp_migrate.verify.runs.target import target

SCHEMA = "amp-migrate/doctor/1"
ENOUGH_STEPS = WARM_UP + 2
_ANATOMY = Run(Arm.ORIGINAL, timing=True, anatomy=True)
_WIDTH = max(len(found.value) for found in Found)


def doctor(request: DoctorRequest) -> int:
    """Measure the script and say what was found; returns the exit status."""
    script = target(request.original, prepare.interpreter(request.python), module=request.module)
    require_writable({"--json": request.json})
    with scratch(request.work) as own:
        pool = pool_with(
            request, dict.fromkeys(Arm, script), own.folder, steps=request.steps, timing_steps=request.steps
        )
        results = _run(pool)
        if any(map(has_failed, results)):
            own.keep = True
            return Verdict.ORIGINAL_FAILED.value
        measured = measured_of(results)
        if measured is None:
            click.echo(f"{Verdict.VACUOUS.name}: at least {ENOUGH_STEPS} optimizer steps are needed")
            return Verdict.VACUOUS.value
        if waits_for_data(measured):
            measured = _without_waiting(pool, measured)
        found = diagnose(measured)
        click.echo("".join(f"{line}\n" for line in lines(measured, found)), nl=False)
        if request.json is not None:
            write("--json", request.json, as_json(measured, found))
        return 0


def _run(pool: Pool) -> list[RunResult]:
    """The runs: what the steps consist of, then where their time goes.

    A CPU that stands in for a GPU takes much longer for half precision, which says nothing of a GPU: times are taken
    there with mixed precision off.
    """
    pool.make([_ANATOMY])
    first = pool.results[_ANATOMY]
    if not first.ended_well:
        return [first]
    off = first.trace.stand_in
    runs = [
        Run(Arm.ORIGINAL, amp_off=off, timing=True, phases=True),
        Run(Arm.ORIGINAL, amp_off=off, census=True, profile=True),
        Run(Arm.ORIGINAL, amp_off=off, timing=True),
    ]
    for run in runs:  # one at a time: they are timed
        pool.make([run])
    return [first, *(pool.results[run] for run in runs)]


def _without_waiting(pool: Pool, measured: Measured) -> Measured:
    """The same with the time of a step whose data are there already: the first batch is given again and again."""
    run = Run(Arm.ORIGINAL, amp_off=not measured.on_gpu, timing=True, variants=(ONE_BATCH,))
    pool.make([run])
    milliseconds = pool.results[run].trace.milliseconds[WARM_UP:]
    if not (pool.results[run].ended_well and milliseconds):
        return measured
    return replace(measured, one_batch_ms=median(milliseconds))


def measured_of(results: list[RunResult]) -> Measured | None:
    """What the runs say together; None where they were too short to say anything."""
    anatomy, phases, profile, plain = (result.trace for result in results)
    profiled = len(profile.steps) - WARM_UP
    if anatomy.anatomy is None or profiled < 1 or min(len(phases.phases), len(plain.milliseconds) + 1) < ENOUGH_STEPS:
        return None
    return Measured(
        environment=plain.environment,
        anatomy=anatomy.anatomy,
        phases=medians(phases.phases),
        profile=profile.profile,
        profiled=profiled,
        step_ms=median(plain.milliseconds[WARM_UP:]),
        kernels=None if plain.stand_in else read(Path(profile.profile.path)),
    )


def lines(measured: Measured, found: tuple[Diagnosis, ...]) -> Iterator[str]:
    """The step, then a line for each cause, and what to do about those that limit."""
    environment, phases = measured.environment, measured.phases
    where = environment["device"] if measured.on_gpu else "CPU stand-in, mixed precision off for all times"
    yield f"torch {environment['torch']}, Python {environment['python']}, {where}"
    named = [f"{name} {phases.get(name, 0.0):.2f} ms" for name in ("data", "backward", "optimizer")]
    rest = phases["step"] - sum(phases.get(name, 0.0) for name in ("data", "backward", "optimizer"))
    yield f"a step of {phases['step']:.2f} ms: {', '.join(named)}, forward and the rest {rest:.2f} ms"
    yield ""
    for one in found:
        yield f"{one.found.value:{_WIDTH}}  {one.cause}: {one.evidence}"
        if one.action:
            yield f"{'':{_WIDTH}}  -> {one.action}"


def as_json(measured: Measured, found: tuple[Diagnosis, ...]) -> str:
    """All that was measured."""
    document = {
        "schema": SCHEMA,
        "diagnoses": [{**asdict(one), "found": one.found.value} for one in found],
        "environment": dict(measured.environment),
        "phases_ms": dict(measured.phases),
        "step_ms": measured.step_ms,
        "one_batch_ms": measured.one_batch_ms,
        "anatomy": asdict(measured.anatomy),
        "profile": {"total_us": measured.profile.total, "products_us": measured.profile.products},
        "kernels_us": None if measured.kernels is None else asdict(measured.kernels),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
