"""The hard gates: what must hold before any statistics are asked. Pure functions of two traces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from amp_migrate.verify.recorded.recording import LOW_DTYPES, Scale, Step, Trace
from amp_migrate.verify.recorder.products import MATRIX_OPERATIONS

ENOUGH_STEPS = 5
CALIBRATION_STEPS = 20  # a dynamic loss scale starts too high on purpose and finds its level by skipping
SKIPS_WARNED = 0.01  # 20 times what a healthy scale skips when it tries to grow, every 2000 steps
SKIPS_FAILED = 0.05
SKIPS_ENOUGH = 3  # fewer are no share of anything: a scale that halves once behind its first 20 steps is healthy
SKIPS_IN_A_ROW = 5


class Status(str, Enum):
    """What a check found."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    VACUOUS = "vacuous"  # nothing was there to be checked, so nothing was shown
    NOT_ASSESSED = "not assessed"


@dataclass(frozen=True)
class Check:
    """One line of the verdict.

    Attributes:
        id: stable name: G0 to G19, R (repeats), E (edit), S (early losses), N (norms), C (convergence).
        title: what is asked.
        detail: what was found, in one line.
    """

    id: str
    title: str
    status: Status
    detail: str


def counts(original: Trace, migrated: Trace) -> Check:
    """G2: as many backward passes and optimizer steps in both, counting skipped steps."""
    if migrated.lost:
        return Check("G2", "same number of steps", Status.FAIL, f"the migrated run was lost: {migrated.lost}")
    pairs = {
        "backward passes": (len(original.backwards), len(migrated.backwards)),
        "optimizer steps": (len(original.steps), len(migrated.steps)),
    }
    detail = "; ".join(f"{a} {what}" if a == b else f"{what}: {a} and {b}" for what, (a, b) in pairs.items())
    if not original.steps and not migrated.steps:
        what = "optimizer step" if original.backwards or migrated.backwards else "backward pass"
        return Check("G2", "same number of steps", Status.VACUOUS, f"no {what} was seen in either script")
    if any(a != b for a, b in pairs.values()):
        return Check("G2", "same number of steps", Status.FAIL, detail)
    if len(original.steps) < ENOUGH_STEPS:
        detail += f"; at least {ENOUGH_STEPS} steps are needed: {_more_steps(migrated)}"
        return Check("G2", "same number of steps", Status.VACUOUS, detail)
    skipped = f", {len(migrated.skips)} of them skipped by the loss scaler" if migrated.skips else ""
    return Check("G2", "same number of steps", Status.PASS, detail + skipped)


def _more_steps(trace: Trace) -> str:
    """How to come to more steps: `--steps` ends a run early, and makes none longer."""
    return "raise --steps" if trace.stopped else "the script makes no more; give it more data or epochs"


def low_precision(migrated: Trace) -> Check:
    """G3: matrix operations of the migrated script gave half-precision results."""
    title = "low precision ran"
    matrix = [(name, dtype, count) for name, dtype, count in migrated.census if name in MATRIX_OPERATIONS]
    total = sum(count for _, _, count in matrix)
    low = sum(count for _, dtype, count in matrix if dtype in LOW_DTYPES)
    if low == 0:
        what = f"all {total} matrix operations were in float32" if total else "no matrix operation was seen"
        return Check("G3", title, Status.VACUOUS, what)
    dtypes = sorted(matrix_dtypes(migrated) & LOW_DTYPES)
    detail = f"{low} of {total} matrix operations in {' and '.join(dtypes)}"
    return Check("G3", title, Status.PASS, detail)


def matrix_dtypes(trace: Trace) -> frozenset[str]:
    """In which dtypes the matrix operations of a run gave their results."""
    return frozenset(dtype for name, dtype, _ in trace.census if name in MATRIX_OPERATIONS)


def finite_losses(original: Trace, migrated: Trace) -> Check:
    """G4: no loss of the migrated run is infinite or NaN where the original's is finite."""
    title = "losses are finite"
    pairs = zip(original.losses, migrated.losses, strict=False)
    bad = next((i for i, (a, b) in enumerate(pairs) if math.isfinite(a) and not math.isfinite(b)), None)
    if bad is not None:
        return Check("G4", title, Status.FAIL, f"backward pass {bad} has a loss of {migrated.losses[bad]}")
    return Check("G4", title, Status.PASS, f"{len(migrated.losses)} losses")


def scale_alive(migrated: Trace) -> Check:
    """G5: the loss scale stays at 1 or above, and steps are skipped only while it finds its level."""
    title = "loss scale is alive"
    if not migrated.scaled:
        return Check("G5", title, Status.PASS, "no loss scale in use")
    if not migrated.scales:
        return Check("G5", title, Status.FAIL, "losses are scaled and the scale is never updated")
    values = [scale.value for scale in migrated.scales]
    if min(values) < 1:
        detail = f"the scale fell to {min(values):g}: gradients are infinite for good"
        return Check("G5", title, Status.FAIL, detail)
    made = len(migrated.steps) - len(migrated.skips)
    if made == 0:
        return Check("G5", title, Status.FAIL, f"all {len(migrated.steps)} optimizer steps were skipped")
    pinned = not any(scale.grows for scale in migrated.scales)
    late = [step for step in migrated.steps if step.index >= CALIBRATION_STEPS]
    skips = [step.index for step in late if step.skipped]
    share = len(skips) / len(late) if late else 0.0
    regained = len(skips) - _that_found_lower(skips, migrated.scales)
    skipped = f"{len(migrated.skips)} of {len(migrated.steps)} steps skipped"
    detail = f"between {min(values):g} and {max(values):g}; {skipped}"
    if (regained > SKIPS_FAILED * len(late) and regained >= SKIPS_ENOUGH) or _longest_row(late) >= SKIPS_IN_A_ROW:
        return Check("G5", title, Status.FAIL, detail)
    if made < ENOUGH_STEPS:
        return Check("G5", title, Status.VACUOUS, f"{detail}; the scale had no time to settle: {_more_steps(migrated)}")
    if pinned:
        detail += "; it never grows"
    return Check("G5", title, Status.WARN if share > SKIPS_WARNED or pinned else Status.PASS, detail)


def _that_found_lower(skips: Sequence[int], scales: Sequence[Scale]) -> int:
    """How many skipped steps brought the scale lower than it had ever been: it was still finding its level.

    Gradients may begin to grow at any step of a right training. What a scale takes back that it grew by is another
    matter: of that there is no end.
    """
    lowest: dict[int, float] = {}
    lower: dict[int, bool] = {}
    for scale in scales:
        before = lowest.get(scale.scaler, math.inf)
        lower[scale.attempt] = lower.get(scale.attempt, False) or scale.value < before
        lowest[scale.scaler] = min(scale.value, before)
    return sum(next((found for attempt, found in lower.items() if attempt > skip), False) for skip in skips)


def _longest_row(steps: list[Step]) -> int:
    longest = row = 0
    for step in steps:
        row = row + 1 if step.skipped else 0
        longest = max(longest, row)
    return longest


def gradients(original: Trace, migrated: Trace) -> Check:
    """G6: the same parameters of the same optimizers received gradients."""
    title = "same parameters got gradients"
    ours, theirs = _reached(original), _reached(migrated)
    if [len(mask) for mask in ours] != [len(mask) for mask in theirs]:
        detail = f"parameters per optimizer: {[len(m) for m in ours]} and {[len(m) for m in theirs]}"
        return Check("G6", title, Status.FAIL, detail)
    differing = [
        (optimizer, parameter)
        for optimizer, (a, b) in enumerate(zip(ours, theirs, strict=True))
        for parameter, (x, y) in enumerate(zip(a, b, strict=True))
        if x != y
    ]
    if differing:
        optimizer, parameter = differing[0]
        side = "only in the migrated run" if theirs[optimizer][parameter] else "only in the original"
        shape = _shape(original, optimizer, parameter)
        detail = f"{len(differing)} differ; parameter {parameter}{shape} of optimizer {optimizer} has a gradient {side}"
        return Check("G6", title, Status.FAIL, detail)
    return Check("G6", title, Status.PASS, f"{sum(map(sum, ours))} of {sum(map(len, ours))} parameters")


def _reached(trace: Trace) -> list[list[bool]]:
    """For each optimizer, which of its parameters had a gradient at any of its steps."""
    masks: dict[int, list[bool]] = {}
    for step in trace.steps:
        now = [mark == "1" for mark in step.grads]
        before = masks.get(step.optimizer, [False] * len(now))
        masks[step.optimizer] = [a or b for a, b in zip(before, now, strict=False)] + now[len(before) :]
    return [masks[optimizer] for optimizer in sorted(masks)]


def _shape(trace: Trace, optimizer: int, parameter: int) -> str:
    shapes = next((s.shapes for s in trace.steps if s.optimizer == optimizer and s.shapes is not None), None)
    return "" if shapes is None else f" (shape {list(shapes[parameter])})"


def weights(original: Trace, migrated: Trace) -> Check:
    """G7: trainable parameters keep the original's dtypes, and running statistics stay finite."""
    title = "weights in float32, weights and buffers finite"
    before, after = _dtypes(original), _dtypes(migrated)
    added = sorted((after - before) & LOW_DTYPES)
    if added:
        detail = f"the optimizer holds parameters in {' and '.join(added)}; the original holds none"
        return Check("G7", title, Status.FAIL, detail)
    if added := sorted(set(migrated.nonfinite) - set(original.nonfinite)):
        others = f" and {len(added) - 1} more" if len(added) > 1 else ""
        return Check("G7", title, Status.FAIL, f"{added[0]}{others} holds infinities or NaN at the end")
    return Check("G7", title, Status.PASS, f"parameters in {' and '.join(sorted(after)) or 'no optimizer'}")


def own_code(original: Trace, migrated: Trace) -> Check | None:
    """G0: the two scripts did not run the same files. None where it is not known what was loaded."""
    ours, theirs = ({digest for _, _, digest in trace.code} for trace in (original, migrated))
    if not ours or not theirs:
        return None
    title = "two programs were compared"
    if ours == theirs:
        files = sorted({file for _, file, _ in migrated.code})
        detail = f"both loaded the same {len(ours)} files, {files[0]} among them: nothing was compared with anything"
        return Check("G0", title, Status.INCONCLUSIVE, detail)
    return Check("G0", title, Status.PASS, f"{len(theirs - ours)} of {len(theirs)} files differ")


def _dtypes(trace: Trace) -> frozenset[str]:
    return frozenset(dtype for step in trace.steps for dtype in step.dtypes)
