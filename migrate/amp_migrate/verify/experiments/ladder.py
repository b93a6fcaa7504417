"""The order of the runs: cheap and telling ones first, further ones only where they are needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from amp_migrate.verify.judge import gates
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Status
from amp_migrate.verify.judge.programs.equality import (
    differences,
    equality_check,
    is_of_scaling,
    may_have_grown,
    of_the_text,
    only_rounding,
    repeats_alike,
)
from amp_migrate.verify.judge.programs.told import told_alike
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.judge.statistics.convergence import Tolerance, converged, power
from amp_migrate.verify.judge.statistics.course import course
from amp_migrate.verify.judge.statistics.speed import TF32_CAPABILITY
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.runs.process import RunResult


class Runs(Protocol):
    """Makes runs by demand."""

    results: dict[Run, RunResult]

    def make(self, runs: Sequence[Run], /) -> None:
        """Make the runs that have not been made."""


def climb(pool: Pool, timing_pairs: int, *, thorough: bool = False) -> Evidence:
    """Make the runs of a verification, stopping where nothing further could change the verdict.

    Args:
        timing_pairs: so many pairs of timing runs are made on a GPU; a CPU that stands in for one is never timed.
        thorough: make also what a lost verdict does not need, for who looks for its cause.
    """
    if pool.setup.seconds:
        pool.make([kinds.ORIGINAL])
        pool.settle(pool.results[kinds.ORIGINAL])
    both = _pair(pool, kinds.ORIGINAL, kinds.MIGRATED)
    evidence = Evidence(*both, dtype=pool.setup.dtype)
    if all(result.ended_well for result in both) and _worth_going_on(evidence):
        evidence = _explained(pool, _beside_itself(pool, evidence))
        if thorough or not _is_lost(evidence):
            evidence = _in_noise(pool, evidence)
            if pool.setup.resume:
                runs = [kinds.going_on(arm, pool.setup.resume) for arm in Arm]
                pool.make(runs)
                evidence = replace(evidence, going_on=tuple(pool.results[run] for run in runs))
            if timing_pairs and not evidence.original.trace.stand_in:
                evidence = time(pool, evidence, timing_pairs)
    return replace(evidence, all=tuple(pool.results.values()))


def train_whole(
    pool: Runs, evidence: Evidence, seeds: int, tolerance: Tolerance, told: Callable[[str], None] = lambda line: None
) -> Evidence:
    """Add whole trainings over `seeds` paired seeds, and up to twice as many while they leave the verdict open.

    `told` gets what the comparison would see, as soon as the first seeds of the original and its twin say it.
    """
    off = evidence.original.trace.uses_amp
    first = [_whole(off, seed) for seed in range(2)]
    pool.make([run for original, _, twin in first for run in (original, twin)])
    for line in power([(pool.results[original], pool.results[twin]) for original, _, twin in first], tolerance):
        told(line)
    for count in (seeds, math.ceil(1.6 * seeds), 2 * seeds):
        runs = [_whole(off, seed) for seed in range(count)]
        pool.make([run for three in runs for run in three])
        beside = _with_same_skips(pool, runs, off)
        evidence = replace(
            evidence,
            whole=tuple((pool.results[original], pool.results[migrated]) for original, migrated, _ in beside),
            rounded=tuple(pool.results[twin] for _, _, twin in beside),
            all=tuple(pool.results.values()),
        )
        statuses = {one.status for one in converged(evidence.whole, evidence.rounded, tolerance)}
        along = course(evidence.whole, evidence.rounded, tolerance), told_alike(evidence.whole, evidence.rounded)
        statuses |= {check.status for check in along if check is not None}
        if Status.FAIL in statuses or Status.INCONCLUSIVE not in statuses:
            break
    return evidence


def _whole(original_uses_amp: bool, seed: int) -> tuple[Run, Run, Run]:
    """Whole trainings of one seed: the original, the migrated script, and the original rounded."""
    original, migrated = (Run(arm, seed_index=seed, whole=True) for arm in Arm)
    return original, migrated, replace(original, amp_off=original_uses_amp, oracle=1)


def _with_same_skips(pool: Runs, runs: Sequence[tuple[Run, Run, Run]], off: bool) -> list[tuple[Run, Run, Run]]:
    """What each migrated run is compared with: the original and its twin, without the steps that the scaler left out.

    A step that is missing makes another training, which no rounding explains and no migration is to blame for.
    """
    found = []
    for original, migrated, twin in runs:
        ours, theirs = (pool.results[run].trace.skips for run in (original, migrated))
        same = ours == theirs
        first, second = (run if same else replace(run, skips=theirs, amp_off=off) for run in (original, twin))
        found.append((first, migrated, second))
    pool.make([run for original, _, twin in found for run in (original, twin)])
    return found


def _worth_going_on(evidence: Evidence) -> bool:
    checks = (
        gates.low_precision(evidence.migrated.trace),
        gates.counts(evidence.original.trace, evidence.migrated.trace),
        gates.own_code(evidence.original.trace, evidence.migrated.trace),
    )
    over = (Status.VACUOUS, Status.INCONCLUSIVE)
    return all(check is None or check.status not in over for check in checks)


def _beside_itself(pool: Pool, evidence: Evidence) -> Evidence:
    """Add both scripts at full precision, and what the migrated run is compared with."""
    amp = evidence.original.trace.uses_amp
    floor = kinds.full_precision(amp)
    pool.make(dict.fromkeys((floor, kinds.MIGRATED_OFF)))
    return replace(
        evidence,
        migrated_off=pool.results[kinds.MIGRATED_OFF],
        floors=(pool.results[floor],),
        reference=reference(pool, evidence.original, evidence.migrated, floor),
    )


def _is_lost(evidence: Evidence) -> bool:
    """Whether a check that needs no noise floor has failed."""
    original, migrated = evidence.original.trace, evidence.migrated.trace
    checks = (
        gates.counts(original, migrated),
        gates.finite_losses(original, migrated),
        gates.scale_alive(migrated),
        gates.gradients(original, migrated),
        gates.weights(original, migrated),
        equality_check(evidence),
    )
    return not evidence.repeats and any(check.status is Status.FAIL for check in checks)


def _in_noise(pool: Pool, evidence: Evidence) -> Evidence:
    """Add the noise that rounding makes, and what is planted to see whether it would be found."""
    amp, migrated = evidence.original.trace.uses_amp, evidence.migrated.trace
    floor = kinds.full_precision(amp)
    oracles = [kinds.oracle_of(floor, number) for number in kinds.ORACLES]
    drill = [kinds.DRILL] if migrated.scaled and not amp else []
    pool.make([*oracles, kinds.PLANT, *drill])
    evidence = replace(
        evidence,
        floors=(pool.results[floor],) * len(oracles),
        oracles=tuple(pool.results[oracle] for oracle in oracles),
        planted=pool.results[kinds.PLANT],
        drill=pool.results[kinds.DRILL] if drill else None,
    )
    if early.in_doubt(evidence.windows, evidence.noise):
        evidence = _further(pool, evidence, [kinds.full_precision(amp, seed) for seed in kinds.FURTHER_SEEDS])
    return evidence


def _explained(pool: Runs, evidence: Evidence) -> Evidence:
    """Add what tells why the two programs are not the same, where they are not."""
    floor, off = evidence.floors[0], evidence.migrated_off
    assert off is not None
    if not (floor.ended_well and off.ended_well) or not (found := differences(evidence)):
        return evidence
    if evidence.migrated.trace.scaled:
        pool.make([kinds.MIGRATED_UNSCALED])
        evidence = replace(evidence, unscaled=pool.results[kinds.MIGRATED_UNSCALED])
    if of_the_text(found) or (is_of_scaling(evidence) and not only_rounding(found)):
        return evidence
    evidence = replace(evidence, repeats=_repeats(pool, floor.run))
    left = differences(evidence)
    if only_rounding(left) and may_have_grown(left) and not evidence.own_noise:
        twins = [kinds.ulp_of(floor.run, number) for number in (1, 2)]
        pool.make(twins)
        evidence = replace(evidence, twins=tuple(pool.results[twin] for twin in twins))
    return evidence


def _repeats(pool: Runs, floor: Run) -> tuple[RunResult, ...]:
    """The run again; three times where it is not the same the first time."""
    again = [replace(floor, again=number, census=False, ranges=False) for number in (1, 2, 3)]
    pool.make(again[:1])
    first = pool.results[again[0]]
    if first.ended_well and repeats_alike(pool.results[floor], first):
        return (first,)
    pool.make(again)
    return tuple(pool.results[run] for run in again)


def reference(pool: Runs, original: RunResult, migrated: RunResult, floor: Run) -> RunResult:
    """The run whose parameters were updated at the same steps as the migrated run's."""
    window = kinds.STEPS * len({step.optimizer for step in migrated.trace.steps})
    ours, theirs = (tuple(i for i in each.trace.skips if i < window) for each in (original, migrated))
    if ours == theirs:
        return original
    run = kinds.same_skips(floor, theirs)
    pool.make([run])
    return pool.results[run]


def _further(pool: Pool, evidence: Evidence, floors: list[Run]) -> Evidence:
    """Add the same of other seeds: the noise there, and the migrated script."""
    migrated = [Run(Arm.MIGRATED, seed_index=floor.seed_index, early=True) for floor in floors]
    oracles = [kinds.oracle_of(floor) for floor in floors]
    pool.make([*floors, *oracles, *migrated])
    pairs = zip(floors, migrated, strict=True)
    return replace(
        evidence,
        floors=(*evidence.floors, *(pool.results[floor] for floor in floors)),
        oracles=(*evidence.oracles, *(pool.results[oracle] for oracle in oracles)),
        further=tuple(
            (reference(pool, pool.results[floor], pool.results[run], floor), pool.results[run]) for floor, run in pairs
        ),
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
