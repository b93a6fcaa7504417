"""Which parts of a model must stay in float32: found by running the migrated script with ever fewer of them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from amp_migrate.verify.experiments import islands
from amp_migrate.verify.experiments.ladder import reference, timed
from amp_migrate.verify.experiments.search import grow, shrink
from amp_migrate.verify.judge import gates
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.low_precision.underflow import underflow
from amp_migrate.verify.judge.statistics import early, speed
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.judge.verdict import Assessment, Verdict
from amp_migrate.verify.recorded.recording import Model
from amp_migrate.verify.recorder.part import Part
from amp_migrate.verify.runs import kinds
from amp_migrate.verify.runs.kinds import Arm, Run
from amp_migrate.verify.runs.pool import Pool

_OF_PRECISION = frozenset({"G4", "G5", "S", "N"})  # checks that a part in float32 could let pass
_FINE = frozenset({Status.PASS, Status.WARN, Status.NOT_ASSESSED})


@dataclass(frozen=True)
class Cost:
    """What keeping one part in float32 costs.

    Attributes:
        share: of the floating-point operations of all models' matrix products and convolutions.
        more_bytes: how much more its results take, for each backward pass.
        speed: steps without it beside steps with it, and the same for `memory`; None where a CPU stands in for the GPU.
    """

    share: float
    more_bytes: int
    speed: Speed | None = None
    memory: Memory | None = None


@dataclass(frozen=True)
class Localised:
    """What was found.

    Attributes:
        reason: why there are no islands, in one sentence; empty where there are.
        islands: the parts that must stay in float32: none of them can be left out.
        costs: of each of them.
        lines: Python that keeps them in float32.
        parts, models: what was looked at.
        bfloat16: whether the script passes with all its mixed precision in bfloat16; None where it
            was not tried.
        probes: how many runs it took to find them.
        is_of_precision: whether more in float32 could change anything.
    """

    reason: str
    islands: tuple[Part, ...] = ()
    costs: tuple[Cost, ...] = ()
    lines: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    models: tuple[Model, ...] = ()
    bfloat16: bool | None = None
    probes: int = 0
    is_of_precision: bool = True


def localize(pool: Pool, evidence: Evidence, assessment: Assessment, timing_pairs: int) -> Localised:
    """Find the parts of the migrated script's models that must stay in float32, if that is what it fails for."""
    if reason := _nothing_to_find(assessment, lost=bool(evidence.migrated.trace.lost)):
        return Localised(reason, is_of_precision=False)
    look = Run(Arm.MIGRATED, parts=True)
    pool.make([look])
    seen = pool.results[look].trace
    if not seen.parts:
        return Localised("no model could be followed: the script calls no module that has parameters")
    before = len(pool.results)
    prober = _Prober(pool, evidence)
    bfloat16 = prober.passes(Run(Arm.MIGRATED, bfloat16=True)) if _is_float16(evidence) else None
    found = replace(Localised("", parts=seen.parts, models=seen.models), bfloat16=bfloat16)
    whole = [part for part in seen.parts if not part.name]
    if not prober.holds(whole):
        reason = "not a part of a model: with all of them in float32 the script fails as well; look at the loss"
        return replace(found, reason=reason, probes=len(pool.results) - before)
    chosen = choose(seen.parts, prober.holds)
    probes = len(pool.results) - before
    passes = max(1, len(evidence.migrated.trace.backwards))
    costs = [_cost(pool, part, seen.parts, passes, timing_pairs) for part in chosen]
    lines = islands.lines(chosen, seen.parts, seen.models)
    return replace(found, islands=chosen, costs=tuple(costs), lines=tuple(lines), probes=probes)


def _nothing_to_find(assessment: Assessment, *, lost: bool) -> str:
    """Why parts in float32 would change nothing; empty where they might.

    Args:
        lost: whether the run ended because its gradients stayed infinite: that it has fewer steps says no more.
    """
    of_precision = _OF_PRECISION | {"G2"} if lost else _OF_PRECISION
    if all(check.status is Status.PASS for check in assessment.checks if check.id == "G5"):
        of_precision |= {"G15"}  # small gradients are lost under a loss scale that is as it should be
    if assessment.verdict is not Verdict.FAIL:
        return assessment.sentence
    if assessment.cause == "edit":
        return "the edit, not precision: with autocast and loss scaling off the scripts still differ"
    if assessment.cause == "casts":
        return f"casts by hand, not mixed precision: {assessment.suspicion}"
    if assessment.cause == "scaling":
        return "the loss scaler, not a part of a model: without it, and with autocast off, the scripts compute the same"
    if assessment.suspicion:
        return f"not a part of a model: {assessment.suspicion}"
    other = next((c for c in assessment.checks if c.status is Status.FAIL and c.id not in of_precision), None)
    return f"not a part of a model: {other.title}: {other.detail}" if other is not None else ""


def choose(parts: Sequence[Part], holds: Callable[[Sequence[Part]], bool]) -> tuple[Part, ...]:
    """Parts that are enough, and none of which can be left out, where all models as a whole are enough.

    They are leaves, if those are enough; else parts that compute something between their own parts; else whole models.
    A module that computes a loss is a part like others.
    """
    for leaf in (True, False):
        candidates = islands.ranked(part for part in parts if not part.is_model and part.leaf is leaf)
        if chosen := grow(candidates, holds):
            return shrink(chosen, holds)
    return shrink([part for part in parts if not part.name], holds)


def _is_float16(evidence: Evidence) -> bool:
    return "float16" in gates.matrix_dtypes(evidence.migrated.trace)


@dataclass(frozen=True)
class _Prober:
    """Runs the migrated script with a change, and judges it as the script itself was judged."""

    pool: Pool
    evidence: Evidence

    def holds(self, parts: Sequence[Part]) -> bool:
        """Whether the script passes with these parts in float32."""
        return self.passes(Run(Arm.MIGRATED, islands=islands.of(parts)))

    def passes(self, run: Run) -> bool:
        """Whether a run passes the checks that precision decides."""
        self.pool.make([run])
        result = self.pool.results[run]
        if not result.ended_well:
            return False
        floor = kinds.full_precision(self.evidence.original.trace.uses_amp)
        beside = reference(self.pool, self.evidence.original, result, floor)
        if not beside.ended_well:
            return False
        a, b = beside.trace, result.trace
        checks: tuple[Check | None, ...] = (
            gates.counts(a, b),
            gates.finite_losses(a, b),
            gates.scale_alive(b),
            early.losses_check([early.window(a, b)], self.evidence.noise),
            early.norms_check(early.norm_ratios(a, b), self.evidence.norm_bound, self.evidence.norms_vanished),
            underflow(self.evidence.floors[0].trace, b, self.evidence.floor_traces),
        )
        return all(check is None or check.status in _FINE for check in checks)


def _cost(pool: Pool, part: Part, parts: Sequence[Part], passes: int, timing_pairs: int) -> Cost:
    cost = Cost(islands.share(part, parts), islands.more_bytes(part, passes))
    if not timing_pairs or pool.results[kinds.MIGRATED].trace.stand_in:
        return cost
    timed_pairs = timed(pool, timing_pairs, kinds.MIGRATED, Run(Arm.MIGRATED, islands=islands.of([part])))
    pairs = [(a.trace, b.trace) for a, b in timed_pairs if a.ended_well and b.ended_well]
    return replace(cost, speed=speed.speed(pairs), memory=speed.memory(pairs))
