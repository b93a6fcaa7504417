"""A loss that CUDA's autocast refuses to run stands in a region."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.sigmoids import logits
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.tensor import PROBABILITY
from amp_migrate.flow.events import Act, Event
from amp_migrate.hazards.seen.autocast_regions import AutocastRegion
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.report.finding import seen_from
from amp_migrate.tables.torch_names import BANNED_LOSS_CLASS, BANNED_LOSS_FUNCTION
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP622",
    name="refused-loss",
    summary="BCELoss or binary_cross_entropy runs under CUDA's autocast, which refuses it",
    example="""
          import torch
          from torch.nn import functional as F


          def compute_loss(model, x, y):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -         return F.binary_cross_entropy(torch.sigmoid(model(x)), y)
        +         return F.binary_cross_entropy_with_logits(model(x), y)
        """,
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
    """Every refused loss in a region for CUDA, and every call in one that comes to such a loss elsewhere."""
    file = script.file
    for call in file.calls:
        region = script.region_around(call)
        if region is None or not script.may_be_on_cuda(region):
            continue
        is_refused, table = _is_refused(script, call), script.flowing.table_of(file, call)
        refused = script.flowing.events(file, call, Act.REFUSED)
        if is_refused or (table and refused):
            hint = _hint(script, call, file, call, refused)
            raises, by = ("may raise", f", by what {table} gives") if table else ("raises", "")
            yield Hazard(call, f"{file.tree.quote(call)} {raises} under CUDA's autocast{by}", hint)
            continue
        for event, within, loss in _refused_in(script, region, call):
            line = within.tree.position(loss)[0]
            where = f"line {line}" if within is file else f"{seen_from(within.name, file.name)}:{line}"
            runs = f"may run, by what {table} gives," if table else "runs"
            what = f"{file.tree.quote(call)} {runs} {within.tree.quote(loss)} ({where})"
            hint = _hint(script, call, within, loss, [event])
            yield Hazard(call, f"{what}, which raises under CUDA's autocast", hint)
            break


def _refused_in(script: Script, region: AutocastRegion, call: cst.Call) -> Iterator[tuple[Event, File, cst.Call]]:
    """The losses that are refused in a region in what a call runs, each with its file and where it stands there."""
    flowing = script.flowing
    if flowing.file(script.file.name) is None:
        return
    for event in flowing.refused:
        by = event.context.cuda.regions if event.context is not None else ()
        is_its = any(flowing.interpreted.node_at(script.file, site) is region.call for site in by)
        is_its &= flowing.comes_to(script.file, call, event, may_choose=True)
        place = flowing.interpreted.place(event.site) if is_its else None
        if place is not None and isinstance(place[1], cst.Call):
            yield event, place[0], place[1]


def _is_refused(script: Script, call: cst.Call) -> bool:
    file = script.file
    if file.names.callee(call) == BANNED_LOSS_FUNCTION:
        return True
    if isinstance(call.func, cst.Call):
        return file.names.callee(call.func) == BANNED_LOSS_CLASS
    bindings = script.roles.bindings(file, call.func)
    is_banned = len(bindings) == 1 and script.roles.losses.is_banned(file, call)
    return is_banned or any(any(each.sure_in.values()) for each in script.flowing.events(file, call, Act.REFUSED))


def _hint(script: Script, call: cst.Call, within: File, loss: cst.Call, refused: Iterable[Event]) -> str:
    """What to do about a loss; `call`: what stands in the region, be it the loss itself."""
    probabilities = argument(loss, "input", 0)
    if probabilities is not None:
        given = logits(script.roles, within, probabilities)
        if given is not None:
            return f"use the form with logits, on {within.tree.quote(given)} without the sigmoid"
        for each in (event.tensor for event in refused if event.tensor is not None):
            for given_to, site in script.flowing.casts.logits(each):
                where = f"line {site.line}" + ("" if site.file == script.file.name else f" of {site.file}")
                return f"use the form with logits, on {ast.unparse(given_to)}, which the sigmoid in {where} is given"
            if each.tags & PROBABILITY:
                return "let the model end without its sigmoid, and use the form with logits"
    tree = script.file.tree
    inputs = ", ".join(f"{tree.quote(arg.value)}.float()" for arg in call.args[:2] if arg.keyword is None)
    return f"compute it behind the region, on {inputs or 'float32 input'}, or use the form with logits"
