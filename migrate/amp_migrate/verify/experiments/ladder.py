"""The order of the runs: cheap and telling ones first, further ones only where they are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from amp_migrate.verify.judge import early, gates
from amp_migrate.verify.judge.convergence import EXTRA_SEEDS, Tolerance, converged
from amp_migrate.verify.judge.equality import equality, first_difference
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.speed import TF32_CAPABILITY
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult


class Runs(Protocol):
    """Makes runs by demand."""

    results: dict[Run, RunResult]

    def make(self, runs: Sequence[Run], /) -> None:
        """Make the runs that have not been made."""


def climb(pool: Pool, timing_pairs: int) -> Evidence:
    """Make the runs of a verification, stopping where nothing further could change the verdict.

    `timing_pairs` pairs of timing runs are made on a GPU; a CPU that stands in for one is never timed.
    """
    both = _pair(pool, kinds.ORIGINAL, kinds.MIGRATED)
    evidence = Evidence(*both)
    if all(result.ended_well for result in both) and _worth_going_on(evidence):
        evidence = _judged(pool, evidence)
        if timing_pairs and not evidence.original.trace.stand_in:
            evidence = time(pool, evidence, timing_pairs)
    return replace(evidence, all=tuple(pool.results.values()))


def train_whole(pool: Runs, evidence: Evidence, seeds: int, tolerance: Tolerance) -> Evidence:
    """Add whole trainings over `seeds` paired seeds, and up to twice as many while they leave the verdict open."""
    extra = [Run(Arm.ORIGINAL, 2 * seeds + index, whole=True) for index in range(EXTRA_SEEDS)]
    for count in (seeds, math.ceil(1.6 * seeds), 2 * seeds):
        pairs = [(Run(Arm.ORIGINAL, i, whole=True), Run(Arm.MIGRATED, i, whole=True)) for i in range(count)]
        pool.make([*(run for pair in pairs for run in pair), *extra])
        evidence = replace(
            evidence,
            whole=tuple((pool.results[a], pool.results[b]) for a, b in pairs),
            extra=tuple(pool.results[run] for run in extra),
            all=tuple(pool.results.values()),
        )
        found = converged(evidence.whole, evidence.extra, tolerance)
        if any(one.status is Status.FAIL for one in found) or all(
            one.status is not Status.INCONCLUSIVE for one in found
        ):
            break
    return evidence


def _worth_going_on(evidence: Evidence) -> bool:
    checks = (
        gates.low_precision(evidence.migrated.trace),
        gates.counts(evidence.original.trace, evidence.migrated.trace),
    )
    return all(check.status is not Status.VACUOUS for check in checks)


def _judged(pool: Pool, evidence: Evidence) -> Evidence:
    """Add what the two runs are judged against."""
    amp = evidence.original.trace.uses_amp
    pool.make(kinds.reference_runs(amp))
    floors = [kinds.full_precision(amp, seed) for seed in kinds.ORACLE_SEEDS]
    evidence = replace(
        evidence,
        migrated_off=pool.results[kinds.MIGRATED_OFF],
        floors=tuple(pool.results[floor] for floor in floors),
        oracles=tuple(pool.results[kinds.oracle_of(floor)] for floor in floors),
        reference=reference(pool, evidence.original, evidence.migrated, floors[0]),
    )
    if not equality(evidence).holds:
        evidence = replace(evidence, repeats=_repeats(pool, floors[0]))
    if any(early.in_doubt(window, evidence.loss_bound) for window in evidence.windows):
        evidence = replace(evidence, further=_further(pool, floors[1:]))
    return evidence


def _repeats(pool: Runs, floor: Run) -> tuple[RunResult, ...]:
    """The run again; three times where it is not the same the first time."""
    again = [replace(floor, again=number, census=False) for number in (1, 2, 3)]
    pool.make(again[:1])
    first = pool.results[again[0]]
    if first.ended_well and first_difference(pool.results[floor].trace.losses, first.trace.losses) is None:
        return (first,)
    pool.make(again)
    return tuple(pool.results[run] for run in again)


def reference(pool: Runs, original: RunResult, migrated: RunResult, floor: Run) -> RunResult:
    """The run whose parameters were updated at the same steps as the migrated run's."""
    if original.trace.skips == migrated.trace.skips:
        return original
    run = kinds.same_skips(floor, migrated.trace.skips)
    pool.make([run])
    return pool.results[run]


def _further(pool: Pool, floors: list[Run]) -> tuple[tuple[RunResult, RunResult], ...]:
    migrated = [Run(Arm.MIGRATED, floor.seed_index) for floor in floors]
    pool.make(migrated)
    return tuple(
        (reference(pool, pool.results[floor], pool.results[run], floor), pool.results[run])
        for floor, run in zip(floors, migrated, strict=True)
    )


def _pair(pool: Pool, original: Run, migrated: Run) -> tuple[RunResult, RunResult]:
    pool.make((original, migrated))
    return pool.results[original], pool.results[migrated]


def time(pool: Runs, evidence: Evidence, pairs: int) -> Evidence:
    """Add the timing runs: of both scripts, and, on a GPU that has TF32, of the original with it on and with it off."""
    has_tf32 = tuple(evidence.original.trace.environment.get("capability", ())) >= TF32_CAPABILITY
    others = kinds.TF32 if has_tf32 else ()
    pool.make(kinds.timing_runs(pairs, (kinds.ORIGINAL, kinds.MIGRATED, *others)))  # all of them in turns
    return replace(
        evidence,
        timing=timed(pool, pairs),
        tf32=tuple(timed(pool, pairs, other) for other in others),
    )


def timed(
    pool: Runs, pairs: int, first: Run = kinds.ORIGINAL, second: Run = kinds.MIGRATED
) -> tuple[tuple[RunResult, RunResult], ...]:
    """Time two kinds of run against one another, in pairs."""
    pool.make(kinds.timing_runs(pairs, (first, second)))
    a, b = ([pool.results[kinds.timing(run, index)] for index in range(pairs)] for run in (first, second))
    return tuple(zip(a, b, strict=True))
