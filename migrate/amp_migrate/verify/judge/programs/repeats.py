"""Does the original repeat itself? Where it does not, what the migration changes cannot be told from what it does.

Processes that race for shared weights, threads, clocks and random numbers of other sources make runs of one script
differ. Differences as small as a GPU's order of additions are noise that the bounds know; larger ones end it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.gates import Check, Status
from amp_migrate.verify.judge.programs.equality import first_difference
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.recorded.recording import Trace

TITLE = "the original repeats itself"
_COMPARED = ("G2", "E", "S", "N")  # checks that compare two runs step by step


def repeats_check(evidence: Evidence) -> Check | None:
    """R: the original differs from itself by less than rounding makes. None where it was not asked to repeat itself."""
    if not evidence.repeats:
        return None
    first, others = evidence.floors[0].trace, [repeat.trace for repeat in evidence.repeats]
    failed = next((repeat for repeat in evidence.repeats if not repeat.ended_well), None)
    if failed is not None:
        return Check("R", TITLE, Status.INCONCLUSIVE, f"it does not always end well: {failed.complaint}")
    counts = sorted({(len(trace.backwards), len(trace.steps)) for trace in (first, *others)})
    if len(counts) > 1:
        seen = " and ".join(f"{backwards} passes, {steps} steps" for backwards, steps in counts)
        return Check("R", TITLE, Status.INCONCLUSIVE, f"its runs make {seen}: {_why(first)}")
    if all(first_difference(first.losses, trace.losses) is None for trace in others):
        return Check("R", TITLE, Status.PASS, "once more, bit for bit")
    noise, rounding = evidence.own_noise, max((floor.s for floor in evidence.floor_windows), default=math.inf)
    detail = f"{len(others)} more runs of it differ by up to S = {noise:.2e}, rounded ones by {rounding:.2e}"
    if early.FLOOR_FACTOR * noise < rounding:
        return Check("R", TITLE, Status.WARN, detail)
    return Check("R", TITLE, Status.INCONCLUSIVE, f"{detail}: {_why(first)}")


def _why(trace: Trace) -> str:
    if trace.ranks > 1:
        return f"its {trace.ranks} processes seem to race, and no run can be compared with another step by step"
    return "look for threads, clocks and random numbers of other sources; no run can be compared with another"


def excused(checks: Sequence[Check], evidence: Evidence) -> list[Check]:
    """The checks, without blame for what the original does to itself; a difference far beyond that stays a failure."""
    repeats = repeats_check(evidence)
    if repeats is None:
        return list(checks)
    found = [*checks]
    place = next((index for index, check in enumerate(checks) if check.id == "E"), len(found))
    if repeats.status is Status.INCONCLUSIVE and not _certain(evidence):
        found = [
            replace(check, status=Status.INCONCLUSIVE)
            if check.id in _COMPARED and check.status is Status.FAIL
            else check
            for check in checks
        ]
        return [repeats, *found]
    return [*found[:place], repeats, *found[place:]]


def _certain(evidence: Evidence) -> bool:
    """Whether the migrated script is farther away than anything that the original does to itself, many times over."""
    limit = early.CERTAIN_FACTOR * early.FLOOR_FACTOR
    return any(early.in_noise(window, evidence.noise) > limit for window in evidence.windows)
