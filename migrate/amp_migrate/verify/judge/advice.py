"""What to do next, by what failed: the last line that a person reads."""

from __future__ import annotations

from collections.abc import Sequence

from amp_migrate.verify.judge.gates import Check, Status

_BY_CHECK = {
    "G0": "run each script in an environment in which its own package is installed, or name files with different code",
    "G3": "put the forward passes into `with torch.autocast(...)`, and the model and its inputs on the GPU",
    "G8": "end the autocast region after the loss: backward() and optimizer.step() stand outside it",
    "G9": "compute the loss inside the region, or give it .float() values",
    "G10": (
        "one GradScaler for the whole run, with the scale that it starts at by default: scale() every loss, step() and "
        "update() through it"
    ),
    "G11": "save scaler.state_dict() with the optimizer's, and load it where that is loaded",
    "G12": "put the whole forward pass into the region, at every step",
    "G13": "say dtype=torch.float16 or torch.bfloat16 in every region",
    "G14": "give regions and islands the extent that they have in the original",
    "G15": (
        "float16 needs a loss scale that starts at its default of 65536 and grows; `amp-verify localize` names the "
        "parts whose gradients are lost all the same"
    ),
    "G16": "put the named tensor on the GPU as the original does",
    "G17": "leave gradients to scaler.unscale_() and scaler.step(), which skip a step that overflows",
    "G19": "set learning rates, weight decay and the like as the original does, whatever the loss scale and the dtypes",
    "R": "give the original its seeds, and let no clock, thread or race decide, then verify again",
}
_LATE = "`--steps 0` compares both scripts with mixed precision off to their ends: that tells an edit from precision"
_BY_CAUSE = {
    "precision": (
        "`amp-verify localize` names the parts that must stay in float32; `--dtype bf16` has the range of float32, and "
        "no loss scale"
    ),
    "casts": "take out .half(), .bfloat16() and .to(dtype): autocast casts what is to be in half precision",
    "edit": "look for the first difference in what the migration changed: what is named there is not as it was",
    "scaling": (
        "scale() the loss, unscale_() before gradients are read or clipped, step() through the scaler of that loss, "
        "and update() once"
    ),
}


_ORIGINAL_FAILED = "make the original run as it is here, by what its log says last: nothing is compared before"
_MIGRATED_FAILED = (
    "the log ends with the line that failed: give what it computes there .float() values, or keep that part in float32 "
    "with `amp-migrate --keep-float32`"
)


def after_failure(suspicion: str, *, is_original: bool) -> str:
    """One line for a script that did not end well; empty where it is known what that points at."""
    return _ORIGINAL_FAILED if is_original else "" if suspicion else _MIGRATED_FAILED


def advice(checks: Sequence[Check], cause: str) -> str:
    """One line for a verdict that is no PASS; empty where nothing is known to help."""
    if any(check.id == "G0" and check.status is Status.INCONCLUSIVE for check in checks):
        return _BY_CHECK["G0"]  # of one script compared with itself, everything else says nothing
    for status in (Status.VACUOUS, Status.FAIL, Status.INCONCLUSIVE):
        for check in checks:
            if check.status is status and check.id in _BY_CHECK:
                return _BY_CHECK[check.id]
        if status is Status.FAIL and any(check.status is status for check in checks):
            late = any(check.id == "C" and check.status is status for check in checks)
            return _BY_CAUSE.get(cause, _LATE if late else "")
    return ""
