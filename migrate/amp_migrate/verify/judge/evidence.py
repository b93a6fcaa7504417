"""The runs of a verification, by the part they play."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations

from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.judge.statistics.early import NormRatio, Window
from amp_migrate.verify.recorded.recording import Range, Trace
from amp_migrate.verify.runs.process import RunResult


@dataclass(frozen=True)
class Evidence:
    """Everything a verdict is built on. What was not run is None or empty.

    Attributes:
        original, migrated: the two scripts as they are.
        dtype: the half format that was asked for; empty where none was.
        migrated_off: the migrated script with mixed precision forced off.
        floors: the original at full precision, beside each of `oracles`; the first has the script's own seed.
        oracles: the same runs with their forward passes rounded to bfloat16: two of the script's own seed, and one of
            each further seed.
        reference: what the migrated run is compared with: the original, or its full-precision form with the steps
            left out that the migrated run's loss scaler skipped.
        planted: the migrated script with a change of its models' results planted, to measure what would be seen.
        drill: the migrated script with an overflow planted, where it scales its losses.
        unscaled: the migrated script with loss scaling forced off too, where it is not the original's program.
        twins: the first of `floors` with everything an ulp off, where the two programs round otherwise.
        repeats: the first of `floors` again, where it had to be known whether it repeats itself: once where it does.
        further: (reference, migrated) pairs of other seeds, where one seed was not enough to tell.
        whole: (original, migrated) pairs of whole trainings, a pair per seed; the original without the steps that the
            migrated run's loss scaler left out.
        rounded: the originals of these pairs again, with their forward passes rounded, and without the same steps.
        timing: (original, migrated) pairs of timing runs.
        tf32: the same with TF32 on and with TF32 off in the original; empty where the GPU has none.
        going_on: the original and the migrated script, each going on from what it saved itself; empty where not asked.
        all: every run, in the order made.
    """

    original: RunResult
    migrated: RunResult
    dtype: str = ""
    migrated_off: RunResult | None = None
    floors: tuple[RunResult, ...] = ()
    oracles: tuple[RunResult, ...] = ()
    reference: RunResult | None = None
    planted: RunResult | None = None
    drill: RunResult | None = None
    unscaled: RunResult | None = None
    twins: tuple[RunResult, ...] = ()
    repeats: tuple[RunResult, ...] = ()
    further: tuple[tuple[RunResult, RunResult], ...] = ()
    whole: tuple[tuple[RunResult, RunResult], ...] = ()
    rounded: tuple[RunResult, ...] = ()
    timing: tuple[tuple[RunResult, RunResult], ...] = ()
    tf32: tuple[tuple[tuple[RunResult, RunResult], ...], ...] = ()
    going_on: tuple[RunResult, ...] = ()
    all: tuple[RunResult, ...] = ()

    @property
    def oracle(self) -> Trace | None:
        """The first oracle, which counts its operations; None where it did not end well."""
        return next((oracle.trace for oracle in self.oracles[:1] if oracle.ended_well), None)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """Of what the original computes in float32."""
        return next((run.trace.ranges for run in (*self.floors, self.original) if run.trace.ranges), ())

    @property
    def floor_traces(self) -> tuple[tuple[Trace, Trace], ...]:
        """(full precision, oracle) for each seed in which both ended well."""
        pairs = zip(self.floors, self.oracles, strict=False)  # a verdict that is lost needs no oracles
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
    def noise(self) -> tuple[float, ...]:
        """How far rounding alone, or the original's own noise, puts the loss of each early pass."""
        windows = self.floor_windows
        optimizers = len({step.optimizer for step in self.original.trace.steps}) or 1
        return early.noise((*windows, *self._own_windows) if windows else (), optimizers)

    @property
    def norm_bound(self) -> float | None:
        """The bound for N, as a log ratio; None without a floor."""
        return early.norm_bound(self._floor_ratios)

    @property
    def norms_vanished(self) -> Counter[int]:
        """At how many first steps of each optimizer rounding alone makes a norm zero."""
        return early.vanished(self._floor_ratios)

    @property
    def _floor_ratios(self) -> list[tuple[NormRatio, ...]]:
        return [early.norm_ratios(floor, oracle) for floor, oracle in self.floor_traces]

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
