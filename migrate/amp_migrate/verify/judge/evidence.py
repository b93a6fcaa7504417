"""The runs of a verification, by the part they play."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from amp_migrate.verify.judge import early
from amp_migrate.verify.judge.early import NormRatio, Window
from amp_migrate.verify.recorded.recording import Trace
from amp_migrate.verify.runs.process import RunResult


@dataclass(frozen=True)
class Evidence:
    """Everything a verdict is built on. What was not run is None or empty.

    Attributes:
        original, migrated: the two scripts as they are.
        migrated_off: the migrated script with mixed precision forced off.
        floors: the original at full precision, a run per seed; the first has the script's own seed.
        oracles: the same runs with their forward passes rounded to bfloat16.
        reference: what the migrated run is compared with: the original, or its full-precision form with the steps
            left out that the migrated run's loss scaler skipped.
        repeats: the first of `floors` again, where it had to be known whether it repeats itself: once where it does.
        further: (reference, migrated) pairs of other seeds, where one seed was not enough to tell.
        whole: (original, migrated) pairs of whole trainings, a pair per seed.
        extra: whole trainings of the original alone, of further seeds.
        timing: (original, migrated) pairs of timing runs.
        tf32: the same with TF32 on and with TF32 off in the original; empty where the GPU has none.
        all: every run, in the order made.
    """

    original: RunResult
    migrated: RunResult
    migrated_off: RunResult | None = None
    floors: tuple[RunResult, ...] = ()
    oracles: tuple[RunResult, ...] = ()
    reference: RunResult | None = None
    repeats: tuple[RunResult, ...] = ()
    further: tuple[tuple[RunResult, RunResult], ...] = ()
    whole: tuple[tuple[RunResult, RunResult], ...] = ()
    extra: tuple[RunResult, ...] = ()
    timing: tuple[tuple[RunResult, RunResult], ...] = ()
    tf32: tuple[tuple[tuple[RunResult, RunResult], ...], ...] = ()
    all: tuple[RunResult, ...] = ()

    @property
    def floor_traces(self) -> tuple[tuple[Trace, Trace], ...]:
        """(full precision, oracle) for each seed in which both ended well."""
        pairs = zip(self.floors, self.oracles, strict=True)
        return tuple((floor.trace, oracle.trace) for floor, oracle in pairs if floor.ended_well and oracle.ended_well)

    @property
    def floor_windows(self) -> tuple[Window, ...]:
        """The loss differences that rounding alone makes, a window per seed."""
        return tuple(early.window(floor, oracle) for floor, oracle in self.floor_traces)

    @property
    def _own_windows(self) -> tuple[Window, ...]:
        """The loss differences between all runs of the original at full precision that are to be the same."""
        same = [run.trace for run in (*self.floors[:1], *self.repeats) if run.ended_well]
        return tuple(early.window(a, b) for a, b in combinations(same, 2))

    @property
    def own_noise(self) -> float:
        """The largest S of the original against itself; 0 where it repeats bit for bit or was not repeated."""
        return max((window.s for window in self._own_windows), default=0.0)

    @property
    def loss_bound(self) -> float | None:
        """The bound for S: the rounding noise, or the original's own where that is larger."""
        windows = self.floor_windows
        return early.bound((*windows, *self._own_windows) if windows else ())

    @property
    def norm_bound(self) -> float:
        """The bound for N, as a log ratio."""
        return early.norm_bound(early.norm_ratios(floor, oracle) for floor, oracle in self.floor_traces)

    @property
    def windows(self) -> tuple[Window, ...]:
        """The migrated run's loss differences, for the script's own seed and for further ones."""
        if self.reference is None:
            return ()
        pairs = ((self.reference, self.migrated), *self.further)
        return tuple(early.window(a.trace, b.trace) for a, b in pairs if a.ended_well and b.ended_well)

    @property
    def norm_ratios(self) -> tuple[NormRatio, ...]:
        """Norms of the first steps, migrated over reference."""
        if self.reference is None:
            return ()
        return early.norm_ratios(self.reference.trace, self.migrated.trace)
