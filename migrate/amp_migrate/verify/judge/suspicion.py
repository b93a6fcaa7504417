"""Names for faults: what a pattern of norms, or an exception, says about the code."""

from __future__ import annotations

import math
from collections.abc import Callable

from amp_migrate.verify.judge.statistics.early import norm_ratios
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Failure, Trace

_NEAR = math.log(1.5)

# Messages of PyTorch's own, and what a migration did to bring them about.
_MESSAGES = (
    ("step() has already been called since the last update()", "scaler.update() is missing after scaler.step()"),
    ("unscale_() has already been called", "scaler.unscale_() is called twice, or scaler.update() is missing"),
    (
        "unscale_() is being called after step()",
        "scaler.update() is missing, or scaler.unscale_() stands after scaler.step()",
    ),
    ("unsafe to autocast", "a binary cross entropy of probabilities runs inside the autocast region"),
    ("Attempting to unscale FP16 gradients", "weights are in float16: the model, or a part of it, is cast by hand"),
    (
        "No inf checks were recorded prior to update",
        "scaler.update() without scaler.step(): gradients stay scaled",
    ),
    ("No inf checks were recorded", "this optimizer's parameters got no scaled gradients"),
    ("unsupported ScalarType BFloat16", "a bfloat16 tensor goes to NumPy: .float() first"),
    ("same dtype", "a half result meets a float32 tensor outside the region: .float() first"),
    ("expected scalar type", "a half result meets a float32 tensor outside the region: .float() first"),
)


def of_failure(failure: Failure | None) -> str:
    """What an exception of the migrated script points at; empty if it points at nothing known."""
    if failure is None:
        return ""
    return next((meaning for text, meaning in _MESSAGES if text in failure.message), "")


def of_training(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    """What differing training points at; empty if it points at nothing known.

    `floor` and `migrated_off` are the two scripts at full precision, `reference` and `migrated` as they are.
    """
    return next((meaning for rule in _RULES if (meaning := rule(reference, migrated, floor, migrated_off))), "")


def _region_over_step(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    if any(s.autocast for s in migrated.steps) and not any(s.autocast for s in reference.steps):
        return "an autocast region spans optimizer.step(): its cached copies of the weights go stale"
    return ""


def _clip_before_unscale(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    first = next(iter(norm_ratios(reference, migrated)), None)
    scale = _first_scale(migrated)
    if first is None or scale is None or not _near(first.clipped, scale):
        return ""
    if first.gradient is not None and first.gradient < 0.5:
        return f"gradients are clipped before scaler.unscale_(): they were still {scale:g} times too large"
    return f"gradients are clipped and used without scaler.unscale_(): they were still {scale:g} times too large"


def _never_unscaled(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    first = next(iter(norm_ratios(reference, migrated)), None)
    scale = _first_scale(migrated)
    if first is not None and scale is not None and _near(first.gradient, scale):
        return f"gradients reach the optimizer without being unscaled: they are {scale:g} times too large"
    return ""


def _accumulation(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    first = next(iter(norm_ratios(floor, migrated_off)), None)
    if first is None or first.gradient is None or not floor.steps:
        return ""
    micro = len(floor.backwards) / len(floor.steps)
    if micro >= 2 and math.isclose(first.gradient, micro, rel_tol=0.01):
        return f"the loss is not divided by the {micro:.0f} micro-batches that it is accumulated over"
    return ""


def _gradients_kept(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    begun: set[int] = set()  # before an optimizer's first step there is nothing to zero
    for ours, theirs in zip(floor.steps, migrated_off.steps, strict=False):
        if ours.zeroed and theirs.zeroed == 0 and theirs.optimizer in begun:
            return f"gradients are not zeroed before step {theirs.index}, as in the original: they add up"
        begun.add(theirs.optimizer)
    return ""


def _half_weights(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    before = {dtype for step in reference.steps for dtype in step.dtypes}
    found = sorted({dtype for step in migrated.steps for dtype in step.dtypes} & LOW_DTYPES - before)
    return f"weights are in {found[0]}: the model, or a part of it, is cast by hand" if found else ""


def _cast_by_hand(reference: Trace, migrated: Trace, floor: Trace, migrated_off: Trace) -> str:
    half = half_by_hand(floor, migrated_off)
    return f"with autocast off {half} still runs in half precision: something is cast by hand" if half else ""


def half_by_hand(floor: Trace, migrated_off: Trace) -> str:
    """An operation that is in half precision though no region is on, and is not in the original; empty if none is."""
    ours, theirs = ({each[:2] for each in trace.census if each[1] in LOW_DTYPES} for trace in (floor, migrated_off))
    return next((f"{name}()" for name, dtype in sorted(theirs - ours)), "")


_RULES: tuple[Callable[[Trace, Trace, Trace, Trace], str], ...] = (
    _half_weights,
    _cast_by_hand,
    _region_over_step,
    _clip_before_unscale,
    _never_unscaled,
    _accumulation,
    _gradients_kept,
)


def _first_scale(trace: Trace) -> float | None:
    """The loss scale behind the first step that was made; None without a scale that could be told from 1."""
    made = next((step.index for step in trace.steps if not step.skipped), None)
    scale = next((b.scale for b in trace.backwards if b.attempt == made), None)
    return scale if scale is not None and scale > 4 else None


def _near(ratio: float | None, scale: float) -> bool:
    return ratio is not None and 0 < ratio < math.inf and abs(math.log(ratio / scale)) < _NEAR
