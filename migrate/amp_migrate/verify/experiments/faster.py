"""Ways to run a script faster, each timed on the script itself, and the largest batch that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from amp_migrate.verify.experiments.search import largest
from amp_migrate.verify.judge import gates
from amp_migrate.verify.judge.statistics.speed import Memory, Speed, memory, speed
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Trace
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool
from amp_migrate.verify.usage import UsageError

AS_IT_IS = Run(Arm.ORIGINAL)
_LARGEST_STEPS = Run(Arm.ORIGINAL, timing=True)
PLACE = "{}"


@dataclass(frozen=True)
class Way:
    """One way to run the script."""

    name: str
    run: Run


@dataclass(frozen=True)
class Timed:
    """How fast one way is.

    Attributes:
        speed: the script as it is beside this way; None where it could not be timed.
        memory: the same; None without a GPU.
        failure: why it could not be; empty where it was.
    """

    way: Way
    speed: Speed | None
    memory: Memory | None
    failure: str = ""


def ways(seen: Trace, migrated: bool) -> tuple[Way, ...]:
    """What there is to be tried on a script.

    Precision is left alone where a CPU stands in for a GPU, which only imitates it; so is torch.compile, which does not
    see through a stand-in.

    Args:
        seen: a census of the script.
        migrated: there is a migration of it, which is in mixed precision.
    """
    found = [Way(name, replace(AS_IT_IS, variants=(name,))) for name in ("channels_last", "fused")]
    if seen.stand_in:
        return tuple(found)
    found.append(Way("compile", replace(AS_IT_IS, variants=("compile",))))
    half = gates.matrix_dtypes(seen) & LOW_DTYPES
    if half:
        found.append(Way("mixed precision off", replace(AS_IT_IS, amp_off=True)))
        if "float16" in half:
            found.append(Way("bfloat16", replace(AS_IT_IS, bfloat16=True)))
    elif migrated:
        found.append(Way("mixed precision", Run(Arm.MIGRATED)))
        found.append(Way("mixed precision, compile", Run(Arm.MIGRATED, variants=("compile",))))
        found.append(Way("bfloat16", Run(Arm.MIGRATED, bfloat16=True)))
    return tuple(found)


def timed(pool: Pool, tried: Sequence[Way], rounds: int) -> tuple[Timed, ...]:
    """Time the ways and the script as it is in turns, `rounds` times; the fastest first, those that failed last."""
    pool.make(kinds.timing_runs(rounds, (AS_IT_IS, *(way.run for way in tried))))
    found = [_timed(pool, way, rounds) for way in tried]
    return tuple(sorted(found, key=lambda one: -one.speed.ratio if one.speed is not None else 0.0))


def _timed(pool: Pool, way: Way, rounds: int) -> Timed:
    results = [
        (pool.results[kinds.timing(AS_IT_IS, index)], pool.results[kinds.timing(way.run, index)])
        for index in range(rounds)
    ]
    failed = next((theirs for _, theirs in results if not theirs.ended_well), None)
    if failed is not None:
        return Timed(way, None, None, failed.complaint)
    pairs = [(ours.trace, theirs.trace) for ours, theirs in results]
    measured = speed(pairs)
    return Timed(way, measured, memory(pairs), "" if measured is not None else "too few steps to be timed")


def arguments(pattern: str, size: int) -> tuple[str, ...]:
    """The words that pass a batch size to the script."""
    return tuple(pattern.replace(PLACE, str(size)).split())


def largest_batch(pool: Pool, pattern: str, start: int) -> int:
    """The largest batch for which the script's first steps fit into the GPU's memory; 0 where none does.

    Raises UsageError where it fails for another reason.
    """

    def fits(size: int) -> bool:
        run = replace(_LARGEST_STEPS, arguments=arguments(pattern, size))
        pool.make([run])
        result = pool.results[run]
        if not (result.ended_well or result.out_of_memory):
            raise UsageError(f"--arg {' '.join(run.arguments)}: {result.complaint}")
        return result.ended_well

    return largest(fits, start)
