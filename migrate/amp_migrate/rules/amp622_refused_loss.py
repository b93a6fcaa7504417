"""A loss that CUDA's autocast refuses to run stands in a region."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.rule import Rule, Safety
from amp_migrate.tables.torch_names import BANNED_LOSS_CLASS, BANNED_LOSS_FUNCTION, SIGMOID_FUNCTIONS

RULE = Rule(
    code="AMP622",
    name="refused-loss",
    summary="BCELoss or binary_cross_entropy runs under CUDA's autocast, which refuses it",
    before=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    loss = F.binary_cross_entropy(torch.sigmoid(model(x)), y)"
    ),
    after=(
        'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n'
        "    loss = F.binary_cross_entropy_with_logits(model(x), y)"
    ),
    why=(
        "The logarithm of a float16 probability is infinite too soon, so PyTorch raises RuntimeError. The form with "
        "logits is safe and takes the place of sigmoid and loss; where no sigmoid is at hand, compute the loss outside "
        "the region, on float32 input."
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every refused loss in a region for CUDA."""
    file = script.file
    for call in file.calls:
        if not _is_refused(script, call):
            continue
        region = script.region_around(call)
        if region is not None and region.device == "cuda":
            yield Hazard(
                call,
                f"{file.tree.quote(call)} raises under CUDA's autocast",
                _hint(script, call),
            )


def _is_refused(script: Script, call: cst.Call) -> bool:
    file = script.file
    if file.names.callee(call) == BANNED_LOSS_FUNCTION:
        return True
    if isinstance(call.func, cst.Call):
        return file.names.callee(call.func) == BANNED_LOSS_CLASS
    bindings = script.roles.bindings(file, call.func)
    return len(bindings) == 1 and script.roles.is_banned_loss(file, call)


def _hint(script: Script, call: cst.Call) -> str:
    tree = script.file.tree
    first = call.args[0].value if call.args else None
    if isinstance(first, cst.Call) and script.file.names.callee(first) in SIGMOID_FUNCTIONS and len(first.args) == 1:
        return f"use the form with logits, on {tree.quote(first.args[0].value)} without the sigmoid"
    inputs = ", ".join(f"{tree.quote(arg.value)}.float()" for arg in call.args[:2] if arg.keyword is None)
    return f"compute it behind the region, on {inputs or 'float32 input'}, or use the form with logits"
