"""Precision or edit? With mixed precision off, a right migration is the original's program, bit for bit.

It is run with autocast off, and with losses scaled by powers of two: in float32 unscaling gives back the very bits, so
the scaler's way is compared along with all else. Where the bits differ and nothing but bits does, the original runs
again with everything an ulp off: what is not farther away than that only rounds otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.programs import program
from amp_migrate.verify.judge.programs.program import Difference
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.runs.process import RunResult

TITLE = "AMP off, the same program"
# Nothing that a run computes changes these: whoever sees one of them differ need not ask whether the original repeats
# itself.
_OF_THE_TEXT = frozenset({"setting", "zeroing"})
# What another order of summing may make in one step, where an ulp in everything happens to make less so early.
_ALWAYS = 3e-5
# What training is made of. Where none of it differs, no rounding has grown in what a script keeps, saves and says
# besides: averaged weights, statistics, checkpoints, figures.
_OF_TRAINING = frozenset({"loss", "clipping", "optimizer state", "most optimizer state"})
# Held against nothing but themselves in the twins, by how many times as much. What an ulp makes of tensors that hold
# next to nothing, or of a loss that is a difference of two, would excuse anything. Of half of all tensors, which no
# single one of them decides, another order of summing makes several times what one ulp does.
_BY_THEMSELVES = {"loss": early.FLOOR_FACTOR, "most weights": 10.0, "most optimizer state": 10.0}


def differences(evidence: Evidence) -> list[Difference]:
    """What the migrated script has otherwise at full precision, the earliest first; but what the original repeats."""
    assert evidence.migrated_off is not None
    found = program.differences(evidence.floors[0], evidence.migrated_off)
    own = {
        (each.what, each.where)
        for repeat in evidence.repeats
        for each in program.differences(evidence.floors[0], repeat)
        if each.what not in ("loss", "steps")
    }
    return [each for each in found if (each.what, each.where) not in own]


def of_the_text(found: Sequence[Difference]) -> bool:
    """Whether the first difference is of a kind that no noise makes."""
    return bool(found) and found[0].what in _OF_THE_TEXT


def only_rounding(found: Sequence[Difference]) -> bool:
    """Whether nothing but numbers that were computed differ."""
    return bool(found) and all(each.size is not None for each in found)


def may_have_grown(found: Sequence[Difference]) -> bool:
    """Whether training itself differs, in which rounding grows."""
    return any(each.what in _OF_TRAINING for each in found)


def first_difference(ours: Sequence[float], theirs: Sequence[float]) -> int | None:
    """Index of the first loss that differs, or that only one run has; None where all are equal, NaN to NaN too."""
    for index, (a, b) in enumerate(zip_longest(ours, theirs)):
        if a != b and not (a != a and b != b):
            return index
    return None


def equality_check(evidence: Evidence) -> Check:
    """E: an edit that changes training is told from one that only changes precision."""
    off, floor = evidence.migrated_off, evidence.floors[0]
    assert off is not None
    for result in (floor, off):
        if not result.ended_well:
            return Check("E", TITLE, Status.FAIL, f"{result.run.name} did not end well: {result.complaint}")
    found = differences(evidence)
    if not found:
        return Check("E", TITLE, Status.PASS, f"to the bit: {program.compared(floor)}")
    # Of what differs first, a setting explains more than the numbers that it changes.
    first = min(found, key=lambda each: (each.attempt, each.size is not None))
    detail = f"first difference: {first}"
    if is_of_scaling(evidence):
        detail = f"the same with loss scaling off, not with losses scaled by powers of two; {detail}"
    if only_rounding(found):
        return _rounded(found, detail, evidence)
    return Check("E", TITLE, Status.FAIL, detail)


def shown_before(check: Check) -> Check:
    """A check of a migration that was made here: only what is the same program but for its precision is handed on."""
    if check.id != "E" or check.status is not Status.PASS:
        return check
    return replace(check, detail=f"{check.detail}; already shown of its text")


def is_of_scaling(evidence: Evidence) -> bool:
    """Whether the two programs are the same where no loss is scaled, and differ where losses are."""
    unscaled = evidence.unscaled
    if unscaled is None or not unscaled.ended_well:
        return False
    return not program.differences(evidence.floors[0], unscaled)


def _rounded(found: Sequence[Difference], detail: str, evidence: Evidence) -> Check:
    """What differs by numbers only: a note where an ulp makes as much."""
    if not may_have_grown(found):
        return _beside_training(found, detail, evidence)
    twins = [program.differences(evidence.floors[0], twin) for twin in evidence.twins if twin.ended_well]
    if twins:
        sizes = [(each.size or 0.0, rounding_allows(twins, each), each.where) for each in found]
        apart, allowed, _ = max(sizes)
        beyond = next((each for each in sizes if each[0] > each[1]), None)
        if beyond is None:
            detail += f"; up to {apart:.1e} apart, and {allowed:.1e} would be rounding: the same, rounded otherwise"
            return Check("E", TITLE, Status.WARN, detail)
        apart, allowed, where = beyond
        detail += f"; {apart:.1e} apart at {where}, where an ulp makes {allowed / early.FLOOR_FACTOR:.1e}"
    noise, floor, off = evidence.own_noise, evidence.floors[0], evidence.migrated_off
    assert off is not None
    difference = early.window(floor.trace, off.trace).s
    if noise and difference <= early.CERTAIN_FACTOR * early.FLOOR_FACTOR * noise:
        detail += f"; S = {difference:.2e}, and {noise:.2e} of the original against itself"
        as_much = difference <= early.FLOOR_FACTOR * noise
        return Check("E", TITLE, Status.WARN if as_much else Status.INCONCLUSIVE, detail)
    return Check("E", TITLE, Status.FAIL, detail)


def _beside_training(found: Sequence[Difference], detail: str, evidence: Evidence) -> Check:
    """Numbers that a script keeps, saves, prints or writes of a training that is the same to the bit."""
    apart, where = max((each.size or 0.0, each.where) for each in found)
    if apart <= _ALWAYS:
        return Check("E", TITLE, Status.WARN, f"{detail}; no loss and no step differs: rounded otherwise")
    # A time that no word and no unit tells of is another in each run, but for those that happen to be the same twice.
    floor = evidence.floors[0]
    own = {each.what for run in evidence.repeats for each in program.differences(floor, run)}
    certain = any(each.what not in own for each in found if (each.size or 0.0) > _ALWAYS)
    detail += f"; no loss and no step differs, of which rounding could have grown: {where} is {apart:.1e} apart"
    return Check("E", TITLE, Status.FAIL if certain else Status.INCONCLUSIVE, detail)


def rounding_allows(twins: Sequence[Sequence[Difference]], found: Difference) -> float:
    """How far apart something may be because an ulp has put the twins apart by then, or soon after.

    What it grows into much later excuses nothing, and what it makes of weights, of which some may do nothing, no loss,
    nor what most of them hold.
    """
    sizes = [
        (each.size or 0.0, each.attempt <= 2 * found.attempt + 2)
        for twin in twins
        for each in twin
        if each.what == found.what or (found.what not in _BY_THEMSELVES and not each.what.startswith("most"))
    ]
    ever = max((size for size, _ in sizes), default=0.0)
    by_then = max((size for size, is_by_then in sizes if is_by_then), default=0.0)
    return _BY_THEMSELVES.get(found.what, early.FLOOR_FACTOR) * min(ever, max(by_then, _ALWAYS))


def repeats_alike(floor: RunResult, again: RunResult) -> bool:
    """Whether two runs of the original computed the same losses."""
    return first_difference(floor.trace.losses, again.trace.losses) is None
