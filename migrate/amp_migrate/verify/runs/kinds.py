"""Which runs a verification makes, and what each is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from amp_migrate.verify.recorder.spec import Orders, Resume


class Arm(str, Enum):
    """Which of the two scripts a run executes."""

    ORIGINAL = "original"
    MIGRATED = "migrated"


@dataclass(frozen=True)
class Run(Orders):
    """One execution of one script.

    Attributes:
        arm: which script.
        early: not beyond the early window, whose losses and norms are compared.
        whole: to the end of the training, not only its first steps.
        arguments: passed to the script after those of all runs.
        again: tells apart runs that are otherwise the same.
    """

    arm: Arm
    early: bool = field(default=False, kw_only=True)
    whole: bool = field(default=False, kw_only=True)
    arguments: tuple[str, ...] = field(default=(), kw_only=True)
    again: int = field(default=0, kw_only=True)

    @property
    def name(self) -> str:
        """What the reports call the run; also its folder, with spaces replaced."""
        words = [self.arm.value]
        if self.amp_off:
            words.append("AMP off" if self.unseen or not self.program else "AMP and scaling off")
        if self.plant:
            words.append(f"results {self.plant:.0%} larger")
        if self.drill:
            words.append("drill")
        if self.ulp:
            words.append(f"an ulp off {self.ulp}")
        if self.oracle:
            words.append("oracle" if self.oracle == 1 else f"oracle {self.oracle}")
        words += (*self.variants, *(() if self.resume else self.arguments))
        if self.bfloat16:
            words.append("bfloat16")
        if self.tf32 is not None:
            words.append(f"TF32 {'on' if self.tf32 else 'off'}")
        if self.parts:
            words.append("part by part")
        if self.islands:
            words.append(f"{len(self.islands)} in float32")
        if self.skips:
            words.append("same skips")
        if self.whole:
            words.append("whole")
        if self.resume:
            words.append(self.resume.value)
        if self.timing:
            words.append("phases" if self.phases else "anatomy" if self.anatomy else "timing")
        if self.seed_index:
            words.append(f"seed {self.seed_index}")
        if self.again:
            words.append(f"again {self.again}")
        return ", ".join(words)


ORIGINAL = Run(Arm.ORIGINAL, census=True, ranges=True, places=True, program=True)
MIGRATED = Run(Arm.MIGRATED, census=True, places=True)
DRILL = Run(Arm.MIGRATED, drill=True)
PLANTED = 0.1
PLANT = Run(Arm.MIGRATED, plant=PLANTED, early=True)
MIGRATED_OFF = Run(Arm.MIGRATED, amp_off=True, unseen=True, program=True, census=True)
MIGRATED_UNSCALED = Run(Arm.MIGRATED, amp_off=True, program=True)
ORACLES = (1, 2)
FURTHER_SEEDS = (1, 2)
TF32 = (Run(Arm.ORIGINAL, tf32=True), Run(Arm.ORIGINAL, tf32=False))
STEPS = 20  # of the early window
DRILL_STEPS = 4


def full_precision(original_uses_amp: bool, seed_index: int = 0) -> Run:
    """The original at full precision: itself, or itself with its mixed precision forced off."""
    if seed_index:
        return Run(Arm.ORIGINAL, seed_index=seed_index, amp_off=original_uses_amp, early=True)
    if not original_uses_amp:
        return ORIGINAL
    return Run(Arm.ORIGINAL, amp_off=True, unseen=True, program=True, census=True, ranges=True)


def reference_runs(original_uses_amp: bool) -> tuple[Run, ...]:
    """What a first look at both scripts is judged against: AMP off, and the noise that rounding makes."""
    floor = full_precision(original_uses_amp)
    runs = (floor, MIGRATED_OFF, *(oracle_of(floor, number) for number in ORACLES), PLANT)
    return tuple(run for run in runs if run != ORIGINAL)


def oracle_of(floor: Run, number: int = 1) -> Run:
    """The first steps of the same run with its forward passes rounded to bfloat16."""
    return Run(
        Arm.ORIGINAL, seed_index=floor.seed_index, amp_off=floor.amp_off, oracle=number, early=True, census=number == 1
    )


def ulp_of(floor: Run, number: int) -> Run:
    """The same run with everything that it computes an ulp off, at random: how code that rounds otherwise trains."""
    return replace(floor, ulp=number, census=False, ranges=False)


def going_on(arm: Arm, words: tuple[str, ...]) -> Run:
    """A run that saves, and behind it, in the same working folder, one that goes on from there."""
    return Run(arm, resume=Resume.GOES_ON, arguments=words)


def same_skips(floor: Run, skips: tuple[int, ...]) -> Run:
    """Its first steps, with the optimizer steps left out that the migrated run's loss scaler left out."""
    return Run(Arm.ORIGINAL, seed_index=floor.seed_index, amp_off=floor.amp_off, skips=skips, early=True)


def timing(run: Run, index: int) -> Run:
    """The same run, timed instead of recorded, for the time of that index."""
    return replace(run, census=False, ranges=False, places=False, program=False, timing=True, again=index)


def timing_runs(rounds: int, kinds: Sequence[Run] = (ORIGINAL, MIGRATED)) -> tuple[Run, ...]:
    """Interleaved as ABBA, there and back, so that a machine that warms up or slows down favours none of them."""
    runs: list[Run] = []
    for index in range(rounds):
        turn = [timing(run, index) for run in kinds]
        runs += turn if index % 2 == 0 else turn[::-1]
    return tuple(runs)
