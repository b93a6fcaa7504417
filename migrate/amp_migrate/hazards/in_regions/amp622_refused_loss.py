"""A loss that CUDA's autocast refuses to run stands in a region."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.values.sigmoids import logits
from amp_migrate.catalog.rule import Rule, Safety, example
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.tensor import PROBABILITY
from amp_migrate.flow.events import Act
from amp_migrate.hazards.seen.autocast_regions import argument
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import BANNED_LOSS_CLASS, BANNED_LOSS_FUNCTION

RULE = Rule(
    code="AMP622",
    name="refused-loss",
    summary="BCELoss or binary_cross_entropy runs under CUDA's autocast, which refuses it",
    before=example(
        """
        import torch
        from torch.nn import functional as F


        def compute_loss(model, x, y):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                return F.binary_cross_entropy(torch.sigmoid(model(x)), y)
        """
    ),
    after=example(
        """
        import torch
        from torch.nn import functional as F


        def compute_loss(model, x, y):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                return F.binary_cross_entropy_with_logits(model(x), y)
        """
    ),
    why=(
        "The logarithm of a float16 probability is infinite too soon, so PyTorch raises RuntimeError. The form with "
        "logits is safe and takes the place of sigmoid and loss; where no sigmoid is at hand, compute the loss outside "
        "the region, on float32 input."
    ),
    sources=(f"{AMP}#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = False


def detect(script: Script) -> Iterator[Hazard]:
    """Every refused loss in a region for CUDA."""
    file = script.file
    for call in file.calls:
        region = script.region_around(call)
        if region is not None and region.device == "cuda" and _is_refused(script, call):
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
    is_banned = len(bindings) == 1 and script.roles.losses.is_banned(file, call)
    return is_banned or any(any(each.sure_in.values()) for each in script.flowing.events(file, call, Act.REFUSED))


def _hint(script: Script, call: cst.Call) -> str:
    tree = script.file.tree
    probabilities = argument(call, "input", 0)
    if probabilities is not None:
        given = logits(script.roles, script.file, probabilities)
        if given is not None:
            return f"use the form with logits, on {tree.quote(given)} without the sigmoid"
        refused = script.flowing.events(script.file, call, Act.REFUSED)
        for each in (event.tensor for event in refused if event.tensor is not None):
            for given_to, site in script.flowing.casts.logits(each):
                where = f"line {site.line}" + ("" if site.file == script.file.name else f" of {site.file}")
                return f"use the form with logits, on {ast.unparse(given_to)}, which the sigmoid in {where} is given"
            if each.tags & PROBABILITY:
                return "let the model end without its sigmoid, and use the form with logits"
    inputs = ", ".join(f"{tree.quote(arg.value)}.float()" for arg in call.args[:2] if arg.keyword is None)
    return f"compute it behind the region, on {inputs or 'float32 input'}, or use the form with logits"
