"""Precision or edit? With mixed precision off, a right migration computes the original's losses bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from amp_migrate.verify.judge import early
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status

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
    index = first_difference(ours, theirs)
    if index is None:
        return Equality(True)
    a, b = (losses[index] if index < len(losses) else None for losses in (ours, theirs))
    return Equality(False, index, (a, b))


def first_difference(ours: Sequence[float], theirs: Sequence[float]) -> int | None:
    """Index of the first loss that differs, or that only one run has; None where all are equal, NaN to NaN too."""
    for index, (a, b) in enumerate(zip_longest(ours, theirs)):
        if a != b and not (a != a and b != b):
            return index
    return None


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
    noise = evidence.own_noise
    difference = early.window(floor.trace, off.trace).s
    same_length = len(floor.trace.losses) == len(off.trace.losses)
    if noise and same_length and difference <= early.CERTAIN_FACTOR * early.FLOOR_FACTOR * noise:
        detail += f"; S = {difference:.2e}, and {noise:.2e} of the original against itself"
        as_much = difference <= early.FLOOR_FACTOR * noise
        return Check("E", TITLE, Status.WARN if as_much else Status.INCONCLUSIVE, detail)
    return Check("E", TITLE, Status.FAIL, detail)
