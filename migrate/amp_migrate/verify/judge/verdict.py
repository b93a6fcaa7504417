"""The verdict: one word, one sentence, an exit code, and the checks behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from amp_migrate.verify.judge import gates, suspicion
from amp_migrate.verify.judge.advice import advice, after_failure
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.low_precision import coverage, underflow
from amp_migrate.verify.judge.low_precision.latent import latent_checks, overflow
from amp_migrate.verify.judge.programs.equality import equality_check, is_of_scaling
from amp_migrate.verify.judge.programs.repeats import excused
from amp_migrate.verify.judge.programs.resumed import resumed
from amp_migrate.verify.judge.programs.told import told_alike, told_in_one_run
from amp_migrate.verify.judge.statistics import convergence, early, power, speed
from amp_migrate.verify.judge.statistics.convergence import DEFAULT, Convergence, Tolerance
from amp_migrate.verify.judge.statistics.course import course
from amp_migrate.verify.judge.statistics.early import WINDOW_STEPS
from amp_migrate.verify.judge.statistics.speed import Memory, Speed
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.process import RunResult


class Verdict(Enum):
    """What a verification can end with; the value is the exit code."""

    PASS = 0
    FAIL = 1
    INCONCLUSIVE = 3
    VACUOUS = 4
    ORIGINAL_FAILED = 5
    MIGRATED_FAILED = 6
    TOO_SLOW = 7


_WORDS = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.INCONCLUSIVE: "INCONCLUSIVE",
    Verdict.VACUOUS: "VACUOUS",
    Verdict.ORIGINAL_FAILED: "ORIGINAL FAILED",
    Verdict.MIGRATED_FAILED: "MIGRATED FAILED",
    Verdict.TOO_SLOW: "PERFORMANCE GATE",
}


@dataclass(frozen=True)
class Limits:
    """Performance gates, where the user asks for them."""

    min_speedup: float | None = None
    max_memory_ratio: float | None = None


@dataclass(frozen=True)
class Assessment:
    """A verdict and its reasons.

    Attributes:
        sentence: what was found, for a reader who reads nothing else.
        suspicion: what in the migrated code the numbers point at; empty where they point at nothing known.
        cause: "edit" where the scripts differ with mixed precision off, "casts" where something is in half precision
            then too, "scaling" where they do as soon as losses are scaled, "precision" where only with all of it on;
            empty where training is the same or was not compared.
        convergence: what whole trainings say; empty where none were made.
        checks: every check that was made, in the order of the ladder.
        speed, memory: None where not measured.
        tf32: the speed beside the original with TF32 on, and beside the original with it off; empty where not measured.
        advice: what to do next, where it is no PASS and something is known to help.
        power: how small a fault would have been seen.
        not_checked: what this verification says nothing about.
    """

    verdict: Verdict
    sentence: str
    suspicion: str
    cause: str
    checks: tuple[Check, ...]
    convergence: tuple[Convergence, ...]
    speed: Speed | None
    memory: Memory | None
    not_checked: tuple[str, ...]
    advice: str = ""
    power: tuple[str, ...] = ()
    tf32: tuple[Speed | None, ...] = ()

    @property
    def word(self) -> str:
        """The verdict in capitals; a pass of whole trainings says how many."""
        if self.verdict is not Verdict.PASS:
            return _WORDS[self.verdict]
        seeds = min((one.n for one in self.convergence), default=0)
        return f"PASS (converged, n = {seeds})" if seeds else "PASS"


def assess(evidence: Evidence, limits: Limits, tolerance: Tolerance = DEFAULT) -> Assessment:
    """Judge the evidence."""
    checks = tuple(_checks(evidence))
    found = convergence.converged(evidence.whole, evidence.rounded, tolerance)
    if evidence.whole:
        on_the_way = course(evidence.whole, evidence.rounded, tolerance)
        told = told_alike(evidence.whole, evidence.rounded)
        checks += (*_whole_ended(evidence), *convergence.checks(found), *filter(None, [on_the_way, told]))
    pairs = _ended(evidence.timing)
    measured, memory = speed.speed(pairs), speed.memory(pairs)
    verdict, sentence = _verdict(evidence, checks)
    if verdict is Verdict.PASS and (missed := _missed(limits, measured, memory)):
        verdict, sentence = Verdict.TOO_SLOW, missed
    cause, suspected = _cause(evidence, verdict, checks), _suspicion(evidence, verdict)
    advised = advice(checks, cause) if verdict is not Verdict.PASS else ""
    if verdict in (Verdict.ORIGINAL_FAILED, Verdict.MIGRATED_FAILED):
        advised = after_failure(suspected, is_original=verdict is Verdict.ORIGINAL_FAILED)
    return Assessment(
        verdict=verdict,
        sentence=sentence,
        suspicion=suspected,
        cause=cause,
        checks=checks,
        convergence=found,
        speed=measured,
        memory=memory,
        not_checked=_not_checked(evidence, found, measured),
        advice=advised,
        power=tuple(power.told(evidence)),
        tf32=tuple(speed.speed(_ended(other)) for other in evidence.tf32),
    )


def _ended(timing: tuple[tuple[RunResult, RunResult], ...]) -> list[tuple[Trace, Trace]]:
    return [(a.trace, b.trace) for a, b in timing if a.ended_well and b.ended_well]


def _checks(evidence: Evidence) -> list[Check]:
    original, migrated = evidence.original, evidence.migrated
    ended = _both_ended(evidence)
    if ended.status is Status.FAIL:
        return [ended]
    a, b = original.trace, migrated.trace
    asked = [
        ended,
        gates.own_code(a, b),
        gates.counts(a, b),
        gates.low_precision(b),
        gates.finite_losses(a, b),
        gates.scale_alive(b),
        gates.gradients(a, b),
        gates.weights(a, b),
        *latent_checks(a, b),
        coverage.coverage(a, b, evidence.oracle),
        coverage.dtype(a, b, evidence.dtype),
        coverage.operations(a, b),
        overflow(evidence.drill.trace if evidence.drill is not None and evidence.drill.ended_well else None),
        underflow.underflow(evidence.floors[0].trace, b, evidence.floor_traces) if evidence.floors else None,
        resumed(*evidence.going_on) if evidence.going_on else None,
    ]
    checks = [check for check in asked if check is not None]
    if evidence.migrated_off is not None:
        checks.append(equality_check(evidence))
        if (told := told_in_one_run(a, b, evidence.floor_traces)) is not None:
            checks.append(told)
        if evidence.windows:
            losses = early.losses_check(evidence.windows, evidence.noise)
            if losses.status is Status.PASS and power.blind(evidence):
                reason = f"{losses.detail}; rounding alone moves this script so much that nothing could be seen"
                losses = replace(losses, status=Status.INCONCLUSIVE, detail=reason)
            checks.append(losses)
            checks.append(early.norms_check(evidence.norm_ratios, evidence.norm_bound, evidence.norms_vanished))
        else:
            reason = "the original with the same steps skipped did not end well"
            checks.append(Check("S", "early losses within the noise floor", Status.INCONCLUSIVE, reason))
    return excused(checks, evidence)


def _both_ended(evidence: Evidence) -> Check:
    """G1: both scripts ran to their end, or to the step limit."""
    for result in (evidence.original, evidence.migrated):
        if not result.ended_well:
            return Check("G1", "both scripts ended well", Status.FAIL, f"{result.run.arm.value}: {result.complaint}")
    return Check("G1", "both scripts ended well", Status.PASS, f"{len(evidence.migrated.trace.steps)} optimizer steps")


def _whole_ended(evidence: Evidence) -> list[Check]:
    """Whole trainings that did not end well, as a check; none where all did."""
    runs = [*(run for pair in evidence.whole for run in pair), *evidence.rounded]
    failed = [result for result in runs if not result.ended_well]
    if not failed:
        return []
    ours = any(result.run.arm is Arm.MIGRATED for result in failed)
    status = Status.FAIL if ours else Status.INCONCLUSIVE
    detail = f"{len(failed)} of {len(runs)} did not; {failed[0].run.name}: {failed[0].complaint}"
    return [Check("C", "whole trainings end well", status, detail)]


def _verdict(evidence: Evidence, checks: tuple[Check, ...]) -> tuple[Verdict, str]:
    if not evidence.original.ended_well:
        return Verdict.ORIGINAL_FAILED, f"{evidence.original.complaint} (log: {evidence.original.log})"
    if not evidence.migrated.ended_well:
        return Verdict.MIGRATED_FAILED, f"{evidence.migrated.complaint} (log: {evidence.migrated.log})"
    for status, verdict in (
        (Status.VACUOUS, Verdict.VACUOUS),
        (Status.FAIL, Verdict.FAIL),
        (Status.INCONCLUSIVE, Verdict.INCONCLUSIVE),
    ):
        found = [check for check in checks if check.status is status]
        if found:
            return verdict, f"{found[0].title}: {found[0].detail}"
    return Verdict.PASS, _seen(evidence, checks)


def _seen(evidence: Evidence, checks: tuple[Check, ...]) -> str:
    """What a pass rests on: what was compared, how far, and how closely."""
    status = {check.id: check.status for check in checks}
    off = evidence.migrated_off
    parts = []
    if off is not None:
        alike = "the same program to the bit" if status.get("E") is Status.PASS else "the same program but for rounding"
        end = ", to the script's end" if not off.trace.stopped else ""
        parts.append(f"with mixed precision off it is {alike} over {len(off.trace.steps)} steps{end}")
    if status.get("S") is Status.PASS:
        parts.append(
            f"with it on, the first {len(evidence.noise)} losses are within what rounding does to the original"
        )
    if evidence.whole:
        parts.append(f"whole trainings of {len(evidence.whole)} seeds end alike")
    return "; ".join(parts)


def _suspicion(evidence: Evidence, verdict: Verdict) -> str:
    if verdict is Verdict.MIGRATED_FAILED:
        return suspicion.of_failure(evidence.migrated.trace.failure)
    if verdict is not Verdict.FAIL or evidence.reference is None or evidence.migrated_off is None:
        return ""
    return suspicion.of_training(
        evidence.reference.trace, evidence.migrated.trace, evidence.floors[0].trace, evidence.migrated_off.trace
    )


def _cause(evidence: Evidence, verdict: Verdict, checks: tuple[Check, ...]) -> str:
    """Precision or edit: the question that AMP-off equality answers."""
    equal = next((check for check in checks if check.id == "E"), None)
    if verdict is not Verdict.FAIL or equal is None:
        return ""
    off = evidence.migrated_off
    if equal.status is not Status.FAIL:
        late = all(check.id == "C" for check in checks if check.status is Status.FAIL)
        # Of what comes behind the last step that was compared with mixed precision off, nothing is known.
        return "" if late and off is not None and off.trace.stopped else "precision"
    if off is not None and suspicion.half_by_hand(evidence.floors[0].trace, off.trace):
        return "casts"
    return "scaling" if is_of_scaling(evidence) else "edit"


def _missed(limits: Limits, measured: Speed | None, memory: Memory | None) -> str:
    """The performance gate that was missed, if any, as a sentence. A gate without a measurement is missed."""
    if limits.min_speedup is not None:
        if measured is None:
            return "--min-speedup was asked for and no step time could be measured"
        if measured.ratio < limits.min_speedup:
            return f"{measured.ratio:.2f} times as fast; {limits.min_speedup:g} were asked for"
    if limits.max_memory_ratio is not None:
        if memory is None:
            return "--max-memory-ratio was asked for and no peak memory could be measured"
        if memory.ratio > limits.max_memory_ratio:
            return f"{memory.ratio:.2f} times the memory; at most {limits.max_memory_ratio:g} were asked for"
    return ""


def _few_steps(evidence: Evidence) -> str:
    """What a window that was not filled leaves open; empty where it was filled, or nothing was compared in it."""
    trace = evidence.original.trace
    steps = len(trace.steps) // (len({step.optimizer for step in trace.steps}) or 1)
    if not evidence.windows or steps >= WINDOW_STEPS:
        return ""
    more = "--steps" if trace.stopped else "give the script more data or epochs"
    return f"what shows after the first {steps} of {WINDOW_STEPS} steps: {more}{f' {WINDOW_STEPS}' * trace.stopped}"


def _not_checked(evidence: Evidence, found: tuple[Convergence, ...], measured: Speed | None) -> tuple[str, ...]:
    original = evidence.original.trace
    items = []
    if few := _few_steps(evidence):
        items.append(few)
    elif evidence.windows and original.stopped:
        items.append(f"what comes after optimizer step {len(original.steps)}, where the runs ended: --seconds, --steps")
    if evidence.windows and len(evidence.migrated.trace.losses) > len(evidence.noise):
        items.append(f"losses in mixed precision after the first {len(evidence.noise)}, but that they are finite")
    if not original.uses_amp and (left := coverage.in_float32(evidence.migrated.trace, evidence.oracle)):
        items.append(f"whether more could be in half precision: {left}")
    if not evidence.whole:
        items.append("convergence over whole trainings and several seeds: --seeds 5")
    if len(found) < 2:
        items.append("evaluation in mixed precision" + (": no metric was printed or written" if evidence.whole else ""))
    if not evidence.going_on and any(each.optimizer for each in evidence.migrated.trace.checkpoints):
        items.append("training that goes on from a checkpoint: --resume-args, with the scripts' own option to resume")
    if made_up := evidence.original.trace.synthetic:
        items.append(f"the script's own data: made-up pictures stood in for {' and '.join(made_up)}")
    if evidence.original.trace.uncompiled or evidence.migrated.trace.uncompiled:
        items.append("what torch.compile makes of the scripts: where a CPU stands in for the GPU, nothing is compiled")
    if evidence.original.trace.stand_in:
        items.append("speed and memory: a CPU stood in for the GPU")
        items.append("the GPU's own kernels: CUDA's casts were applied on the CPU, in float32 rounded to half")
    elif measured is None:
        items.append("speed and memory: no timing run was long enough, or none was asked for")
    if evidence.migrated_off is None:
        items.append("equality with AMP off, early losses and norms: the ladder stopped before them")
    return tuple(items)
