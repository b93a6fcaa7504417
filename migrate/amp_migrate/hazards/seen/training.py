"""The calls that train: backward passes and optimizer steps, whoever does them, and the regions they stand in."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.optimizers import is_optimizer
from amp_migrate.hazards.seen.autocast_regions import AutocastRegion, is_false
from amp_migrate.hazards.seen.script import Script


def training_calls(file: File) -> Iterator[cst.Call]:
    """Every `loss.backward()`, `optimizer.step()` and `scaler.step(optimizer)` of a file, in source order."""
    for call in file.calls:
        if not isinstance(call.func, cst.Attribute) or file.names.full(call.func):
            continue
        owner, method = call.func.value, call.func.attr.value
        if method == "backward":
            # With an argument it is a wrapper's own, or the backward of a tensor that is no loss.
            if all(arg.keyword is not None for arg in call.args):
                yield call
        elif method == "step" and any(is_optimizer(file, each) for each in (owner, *(a.value for a in call.args[:1]))):
            yield call


def is_step(call: cst.Call) -> bool:
    """Whether a training call is the step of an optimizer."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "step"


def looping_regions(script: Script) -> list[AutocastRegion]:
    """The regions around a loop that steps an optimizer, which keep the casts of weights from one step to the next."""
    found: list[AutocastRegion] = []
    for call in training_calls(script.file):
        loop = script.file.tree.loop(call)
        region = None if loop is None or not is_step(call) else script.region_around(loop)
        cache = None if region is None else script.file.names.argument(region.call, "cache_enabled")
        if region is not None and region not in found and not is_false(cache):
            found.append(region)
    return found
