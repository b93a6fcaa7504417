"""What a verification would have seen: how small a fault could have been, in this run, to be found."""

from __future__ import annotations

import math

from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.programs import program
from amp_migrate.verify.judge.statistics import early
from amp_migrate.verify.runs.kinds import PLANTED

_BLIND = 0.5  # a change by a half that would not be seen


def outputs(evidence: Evidence) -> float | None:
    """The smallest change of a model's results, as a share, that the run would have shown; None where not measured.

    A change of `PLANTED` was made in a run of its own. How far that moved the losses and norms, against their bounds,
    says what would have been enough.
    """
    planted, reference = evidence.planted, evidence.reference
    if planted is None or reference is None or not planted.ended_well or not evidence.noise:
        return None
    moved = early.window(evidence.migrated.trace, planted.trace)
    units = early.in_noise(moved, evidence.noise) / early.FLOOR_FACTOR
    ratios = early.norm_ratios(evidence.migrated.trace, planted.trace)
    if evidence.norm_bound:
        far = [ratio.farthest / evidence.norm_bound for ratio in ratios if math.isfinite(ratio.farthest)]
        units = max([units, *far])
    return PLANTED / units if units else math.inf


def gradients(evidence: Evidence) -> float | None:
    """The smallest factor on gradients, or on a learning rate, less 1, that the norms would have shown."""
    return math.expm1(evidence.norm_bound) if evidence.norm_bound is not None and evidence.norm_ratios else None


def blind(evidence: Evidence) -> bool:
    """Whether the runs in mixed precision would have shown next to nothing."""
    noise, by_norms = evidence.noise, gradients(evidence)
    return bool(noise) and noise[0] > _BLIND and (by_norms is None or by_norms > _BLIND)


def told(evidence: Evidence) -> list[str]:
    """What would have been seen, a line for mixed precision off and one for on."""
    lines = []
    off = evidence.migrated_off
    if off is not None and off.ended_well:
        end = ", to the end of the script" if not off.trace.stopped else ""
        compared = program.compared(evidence.floors[0])
        lines.append(f"with mixed precision off, any other bit in {compared}, over {len(off.trace.steps)} steps{end}")
    parts = []
    noise = evidence.noise
    if noise:
        first, last = (early.FLOOR_FACTOR * unit for unit in (noise[0], noise[-1]))
        parts.append(f"losses off by {first:.1%} at the first step and {last:.1%} at the last of {len(noise)} passes")
    if (by_norms := gradients(evidence)) is not None:
        parts.append(f"gradients or a learning rate off by {by_norms:.1%}")
    if (by_outputs := outputs(evidence)) is not None:
        parts.append(f"results of the model off by {by_outputs:.1%}" if by_outputs < 1 else "no results of the model")
    if parts:
        lines.append(f"with it on, {', '.join(parts)}")
    return lines
