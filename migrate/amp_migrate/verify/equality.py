"""Precision or edit? With mixed precision off, a right migration computes the original's losses bit for bit."""

from __future__ import annotations

from dataclasses import dataclass

from amp_migrate.verify import early
from amp_migrate.verify.evidence import Evidence
from amp_migrate.verify.gates import Check, Status

TITLE = "AMP off, losses equal bit for bit"


@dataclass(frozen=True)
class Equality:
    """Whether the losses of the two scripts are equal with mixed precision off.

    Attributes:
        holds: all equal, as many of them.
        first: index of the first backward pass that differs; None where they are equal.
        values: the original's loss there and the migrated script's; None for a run that had ended by then.
    """

    holds: bool
    first: int | None = None
    values: tuple[float | None, float | None] = (None, None)


def equality(evidence: Evidence) -> Equality:
    """Compare the original at full precision with the migrated script at full precision."""
    assert evidence.migrated_off is not None
    ours, theirs = evidence.floors[0].trace.losses, evidence.migrated_off.trace.losses
    for index in range(max(len(ours), len(theirs))):
        a = ours[index] if index < len(ours) else None
        b = theirs[index] if index < len(theirs) else None
        if a != b and not (a is not None and b is not None and a != a and b != b):  # NaN equals NaN here
            return Equality(False, index, (a, b))
    return Equality(True)


def equality_check(evidence: Evidence) -> Check:
    """E: an edit that changes training is told from one that only changes precision."""
    off = evidence.migrated_off
    floor = evidence.floors[0]
    assert off is not None
    for result in (floor, off):
        if not result.ended_well:
            return Check("E", TITLE, Status.FAIL, f"{result.run.name} did not end well: {result.complaint}")
    found = equality(evidence)
    if found.holds:
        return Check("E", TITLE, Status.PASS, f"all {len(off.trace.losses)} losses equal")
    a, b = ("no such pass" if value is None else f"{value:.9g}" for value in found.values)
    detail = f"first difference at backward pass {found.first}: {a} and {b}"
    noise = _machine_noise(evidence)
    difference = early.window(floor.trace, off.trace).s
    same_length = len(floor.trace.losses) == len(off.trace.losses)
    if same_length and difference <= early.FLOOR_FACTOR * noise:
        detail += f"; the original differs from itself as much (S = {noise:.2e}): this machine does not repeat it"
        return Check("E", TITLE, Status.WARN, detail)
    return Check("E", TITLE, Status.FAIL, detail)


def _machine_noise(evidence: Evidence) -> float:
    """S of the original against itself; 0 where it repeats bit for bit or was not repeated."""
    repeat = evidence.repeat
    if repeat is None or not repeat.ended_well:
        return 0.0
    return early.window(evidence.floors[0].trace, repeat.trace).s
