"""Faults that the losses of a short run need not show. Pure functions of two traces.

What the original does already is not held against the migration.
"""

from __future__ import annotations

from amp_migrate.verify.judge.gates import ENOUGH_STEPS, SKIPS_ENOUGH, SKIPS_FAILED, Check, Status, matrix_dtypes
from amp_migrate.verify.recorded.recording import Trace


def latent_checks(original: Trace, migrated: Trace) -> list[Check]:
    """G8 to G11 and G16, those that apply."""
    rules = (regions_end, whole_losses, scaled_steps, checkpoints, one_device)
    checks = (rule(original, migrated) for rule in rules)
    return [check for check in checks if check is not None]


def regions_end(original: Trace, migrated: Trace) -> Check:
    """G8: no backward pass and no optimizer step runs inside an autocast region, unless the original's do."""
    title = "regions end before backward and step"
    for what, ours, theirs in (
        ("optimizer step", [s.autocast for s in original.steps], [s.autocast for s in migrated.steps]),
        ("backward pass", [b.autocast for b in original.backwards], [b.autocast for b in migrated.backwards]),
    ):
        inside = [index for index, autocast in enumerate(theirs) if autocast]
        if inside and not any(ours):
            detail = f"{what} {inside[0]} runs inside an autocast region, which should end after the loss"
            return Check("G8", title, Status.FAIL, detail)
    return Check("G8", title, Status.PASS, f"{len(migrated.backwards)} backward passes")


def whole_losses(original: Trace, migrated: Trace) -> Check:
    """G9: PyTorch's loss functions compute in float32."""
    title = "loss functions in float32"
    before = {name for backward in original.backwards for name in backward.half}
    found = sorted({name for backward in migrated.backwards for name in backward.half} - before)
    if found:
        detail = f"{' and '.join(found)} on half values outside every region: put it inside, or give it .float() values"
        return Check("G9", title, Status.FAIL, detail)
    return Check("G9", title, Status.PASS, "none in half precision")


def scaled_steps(original: Trace, migrated: Trace) -> Check | None:
    """G10: float16 has a loss scale, and one scaler sees every step. None where nothing is in float16."""
    title = "one loss scale over all steps"
    if "float16" not in matrix_dtypes(migrated):
        return None
    if not migrated.scaled:
        if "float16" in matrix_dtypes(original):
            return None
        return Check("G10", title, Status.FAIL, "float16 without a loss scale: small gradients become zero")
    none = migrated.scales and all(scale.value == 1 and not scale.grows for scale in migrated.scales)
    if none and "float16" not in matrix_dtypes(original):
        return Check(
            "G10", title, Status.FAIL, "a loss scale of 1 that never grows is none: small gradients become zero"
        )
    past = [step.index for step in migrated.steps if step.past_scaler]
    if past and not any(step.past_scaler for step in original.steps):
        detail = f"optimizer step {past[0]} does not go through scaler.step(): infinite gradients are not skipped"
        return Check("G10", title, Status.FAIL, detail)
    if _overgrows(migrated):
        return Check("G10", title, Status.FAIL, "the scale grows until it overflows, again and again")
    scalers = {scale.scaler for scale in migrated.scales}
    optimizers = {step.optimizer for step in migrated.steps}
    if len(scalers) == len(migrated.scales) > max(ENOUGH_STEPS, len(optimizers)):
        return Check("G10", title, Status.FAIL, "every step makes a scaler of its own: the scale never adapts")
    return Check("G10", title, Status.PASS, f"{len(scalers)} scaler{'s' if len(scalers) > 1 else ''}")


def _overgrows(trace: Trace) -> bool:
    """Whether more steps are skipped after the scale first grew than a scale that grows now and then would skip."""
    pairs = zip(trace.scales, trace.scales[1:], strict=False)
    grown = next((b.attempt for a, b in pairs if b.scaler == a.scaler and b.value > a.value), None)
    if grown is None:
        return False
    skipped = sum(index >= grown for index in trace.skips)
    return skipped >= SKIPS_ENOUGH and skipped > SKIPS_FAILED * len(trace.steps)


def checkpoints(original: Trace, migrated: Trace) -> Check | None:
    """G11: who saves the optimizer saves the state of its loss scaler too. None where there is nothing to save."""
    title = "checkpoints hold the loss scale"
    saved = [checkpoint for checkpoint in migrated.checkpoints if checkpoint.optimizer]
    if not (migrated.scaled and saved):
        return None
    if any(checkpoint.scaler for checkpoint in migrated.checkpoints):
        return Check("G11", title, Status.PASS, f"{len(saved)} checkpoints")
    if original.scaled and not any(c.scaler for c in original.checkpoints):
        return Check("G11", title, Status.WARN, "neither script saves scaler.state_dict() beside its optimizer")
    detail = "the optimizer is saved without scaler.state_dict(): a resumed training starts at the first scale again"
    return Check("G11", title, Status.FAIL, detail)


def one_device(original: Trace, migrated: Trace) -> Check | None:
    """G16: no operation mixes tensors of the CPU and of the GPU. None where there is a GPU to say so itself."""
    if not migrated.stand_in:
        return None
    title = "tensors are where they should be"
    before = {(each.operation, each.line) for each in original.mixed}
    found = [each for each in migrated.mixed if (each.operation, each.line) not in before]
    if found:
        detail = f"{found[0].place}: {found[0].operation}() of a tensor on the CPU and one on the GPU fails on a GPU"
        return Check("G16", title, Status.FAIL, detail)
    return Check("G16", title, Status.PASS, "no operation of the steps that were looked at mixes devices")


def overflow(drill: Trace | None) -> Check | None:
    """G17: a gradient that overflows is not stepped with. None where no overflow was planted."""
    if drill is None or drill.drilled is None:
        return None
    title = "a planted overflow is skipped"
    step = next((step for step in drill.steps if step.index >= drill.drilled), None)
    if step is None or step.zeroed:
        return None
    if not step.skipped:
        detail = f"optimizer step {step.index} was made with a gradient that had been infinite after backward()"
        return Check("G17", title, Status.FAIL, detail)
    values = [scale.value for scale in drill.scales if scale.attempt <= drill.drilled + 1]
    if len(values) > 1 and values[-1] >= values[-2]:
        detail = f"step {step.index} was skipped, and the scale stayed at {values[-1]:g}"
        return Check("G17", title, Status.WARN, detail)
    return Check("G17", title, Status.PASS, f"optimizer step {step.index} was left out")
