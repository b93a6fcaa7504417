"""Which runs a verification makes, and what each is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum


class Arm(str, Enum):
    """Which of the two scripts a run executes."""

    ORIGINAL = "original"
    MIGRATED = "migrated"


@dataclass(frozen=True)
class Run:
    """One execution of one script.

    Attributes:
        arm: which script.
        seed_index: runs with the same index see the same random numbers; 0 is the script's own seed.
        amp_off: autocast and loss scaling forced off.
        oracle: forward passes rounded to bfloat16 by the harness.
        census: count operations by dtype.
        timing: step times only.
        phases: of a run that is timed: where the time of its steps goes.
        anatomy: of a run that is timed, and whose times say nothing then: what its first steps consist of.
        whole: to the end of the training, not only its first steps.
        profile: profile the steps after the first ones.
        bfloat16: mixed precision in bfloat16, whatever half format the script asks for.
        parts: compare the parts of the models with themselves in float32.
        islands: (model, part) pairs that stay in float32.
        variants: names of what is done to make the script faster.
        arguments: passed to the script after those of all runs.
        tf32: TF32 on, or off, whatever the script says.
        skips: optimizer steps to leave out.
        again: tells apart runs that are otherwise the same.
    """

    arm: Arm
    seed_index: int = 0
    amp_off: bool = False
    oracle: bool = False
    census: bool = False
    timing: bool = False
    phases: bool = False
    anatomy: bool = False
    whole: bool = False
    profile: bool = False
    bfloat16: bool = False
    parts: bool = False
    islands: tuple[tuple[int, str], ...] = ()
    variants: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    tf32: bool | None = None
    skips: tuple[int, ...] = ()
    again: int = 0

    @property
    def name(self) -> str:
        """What the reports call the run; also its folder, with spaces replaced."""
        words = [self.arm.value]
        if self.amp_off:
            words.append("AMP off")
        if self.oracle:
            words.append("oracle")
        words += (*self.variants, *self.arguments)
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
        if self.timing:
            words.append("phases" if self.phases else "anatomy" if self.anatomy else "timing")
        if self.seed_index:
            words.append(f"seed {self.seed_index}")
        if self.again:
            words.append(f"again {self.again}")
        return ", ".join(words)


ORIGINAL = Run(Arm.ORIGINAL, census=True)
MIGRATED = Run(Arm.MIGRATED, census=True)
MIGRATED_OFF = Run(Arm.MIGRATED, amp_off=True)
ORACLE_SEEDS = (0, 1, 2)
TF32 = (Run(Arm.ORIGINAL, tf32=True), Run(Arm.ORIGINAL, tf32=False))
STEPS = 20


def full_precision(original_uses_amp: bool, seed_index: int = 0) -> Run:
    """The original at full precision: itself, or itself with its mixed precision forced off."""
    if original_uses_amp:
        return Run(Arm.ORIGINAL, seed_index, amp_off=True)
    return ORIGINAL if seed_index == 0 else Run(Arm.ORIGINAL, seed_index)


def reference_runs(original_uses_amp: bool) -> tuple[Run, ...]:
    """What a first look at both scripts is judged against: AMP off, and the noise floor over three seeds."""
    floors = [full_precision(original_uses_amp, seed) for seed in ORACLE_SEEDS]
    oracles = [oracle_of(floor) for floor in floors]
    return tuple(run for run in (MIGRATED_OFF, *oracles, *floors) if run != ORIGINAL)


def oracle_of(floor: Run) -> Run:
    """The same run with its forward passes rounded to bfloat16."""
    return replace(floor, oracle=True, census=False)


def same_skips(floor: Run, skips: tuple[int, ...]) -> Run:
    """The same run with the optimizer steps left out that the migrated run's loss scaler left out."""
    return replace(floor, skips=skips, census=False)


def timing(run: Run, index: int) -> Run:
    """The same run, timed instead of recorded, for the time of that index."""
    return replace(run, census=False, timing=True, again=index)


def timing_runs(rounds: int, kinds: Sequence[Run] = (ORIGINAL, MIGRATED)) -> tuple[Run, ...]:
    """Interleaved as ABBA, there and back, so that a machine that warms up or slows down favours none of them."""
    runs: list[Run] = []
    for index in range(rounds):
        turn = [timing(run, index) for run in kinds]
        runs += turn if index % 2 == 0 else turn[::-1]
    return tuple(runs)
