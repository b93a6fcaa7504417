"""Attention scores are masked with a number that float16 does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.numbers import number
from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP, TORCH
from amp_migrate.flow.domain.tensor import BOOL, INT, LOW
from amp_migrate.flow.events import OF_TOO_LARGE, TOO_LARGE, Act
from amp_migrate.flow.source import Site
from amp_migrate.hazards.seen.autocast_regions import is_switched_off
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.code import code
from amp_migrate.trees.nodes import last_word

RULE = Rule(
    code="AMP626",
    name="huge-mask",
    summary="scores that are float16 under autocast are masked with a number that float16 does not have",
    example="""
          import torch


          def attend(q, k, mask):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  scores = torch.matmul(q, k.transpose(-2, -1))
        -         scores = scores.masked_fill(mask == 0, -1e9)
        +         scores = scores.masked_fill(mask == 0, max(-1e9, torch.finfo(scores.dtype).min))
                  return scores.softmax(-1)
        """,
    why=(
        "A product of matrices is float16 under autocast, float16 ends at -65504, and `masked_fill` raises "
        "RuntimeError for what is beyond. `torch.finfo(scores.dtype).min` is the least number of whatever dtype there "
        "is; in float32 the mask stays what it was. Added in place (`scores += mask * -1e9`), such a number is minus "
        "infinity, and a row of nothing else is NaN behind a softmax; `scores = scores + mask * -1e9` is float32. "
        "A product of matrices that such scores go into as they are casts them to float16, where they are infinite, "
        "and NaN times the zero of a mask or of a one-hot code: it needs a region that is off, and float32 inputs. "
        "Where the scores have no name of their own, and in TorchScript, which has no `torch.finfo`, it is told."
    ),
    sources=(f"{AMP}#cuda-ops-that-can-autocast-to-float16", f"{TORCH}/type_info.html"),
)
FLOAT16_ONLY = True
OF_MODELS = True
_METHODS = ("masked_fill", "masked_fill_")
_LEAST = -65504.0
_FINFO = "use torch.finfo(x.dtype).min of the tensor x that it goes into"
_APART = "compute it in torch.amp.autocast(..., enabled=False), of float32 inputs (.float())"
_HUGE = re.compile(r"-\s*\d[\d._]*e\+?\d|-\s*\d{6}")


def detect(script: Script) -> Iterator[Hazard]:
    """Every fill of a product of matrices with such a number, in the script and in what is below its folder."""
    if not script.computes_in_float16:
        return
    known = {name for name, _ in script.settings.masked} if script.moved else set()
    library = script.roles.project.library

    def is_asked(name: str) -> bool:
        return script.may_run(name) or name in known

    told: set[cst.CSTNode] = set()
    for file in dict.fromkeys(file for method in _METHODS for file in library.calling(method, _HUGE, is_asked)):
        for call in file.calls:
            parts = _parts(file, call)
            if parts is not None and _overflows(script, file, call, *parts):
                told.add(call)
                yield _hazard(script, file, call, *parts)
    for file in filter(None, map(library.named, sorted(known))):
        for store in file.tree.every(cst.Assign):
            parts = _stored(store)
            if parts is not None and _overflows(script, file, store, *parts):
                yield _hazard(script, file, store, *parts)
    yield from (hazard for hazard in _in_flow(script) if hazard.node not in told) if script.has_amp else ()


def _in_flow(script: Script) -> Iterator[Hazard]:
    """Every place at which such a number surely goes into what a region of the script makes float16, or is cast."""
    flowing, regions = script.flowing, {region.call for region in script.regions.values()}
    told: set[Site] = set()  # what raises is not infinite as well
    events = flowing.questions.events
    for event in (*events(Act.OVERFLOW), *events(Act.RISK)) if regions else ():
        made_low = event.tensor.regions if event.tensor is not None else frozenset()
        if event.why == OF_TOO_LARGE and event.context is not None:
            made_low = event.context.cuda.regions
        is_meant = event.act is Act.OVERFLOW or event.why in (TOO_LARGE, OF_TOO_LARGE)
        is_own = not regions.isdisjoint(flowing.interpreted.node_at(script.file, each) for each in made_low)
        if not is_meant or (made_low and not is_own):
            continue
        where = flowing.interpreted.place(event.site) if any(event.sure_in.values()) else None
        if where is not None and event.site not in told:
            told.add(event.site)
            file, node = where
            quoted = file.tree.quote(node)
            if event.act is Act.OVERFLOW:
                message = f"{quoted} raises where it is float16: a number in it is beyond what that holds"
            elif event.why == OF_TOO_LARGE:
                message = f"{quoted} casts a number to float16 that is infinite there, and NaN times zero"
            else:
                message = f"{quoted} is infinite in float16, and a row of nothing else is NaN behind a softmax"
            yield Hazard(node, message, _APART if event.why == OF_TOO_LARGE else _FINFO, file=file)


def _parts(file: File, call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """What is filled and with which number, where a call is a fill; None where it is none."""
    given = [each.value for each in call.args if each.keyword is None and not each.star]
    if len(given) != len(call.args) or not isinstance(call.func, cst.Attribute):
        return None
    if file.names.full(call.func) == "torch.masked_fill":
        return (given[0], given[2]) if len(given) == 3 else None
    return (call.func.value, given[1]) if call.func.attr.value in _METHODS and len(given) == 2 else None


def _stored(store: cst.Assign) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """What has a number put into its items, and which, as in `scores[banned] = -1e9`; None for any other assignment."""
    target = store.targets[0].target
    return (target.value, store.value) if len(store.targets) == 1 and isinstance(target, cst.Subscript) else None


def _hazard(
    script: Script,
    file: File,
    fill: cst.Call | cst.Assign,
    scores: cst.BaseExpression,
    least: cst.BaseExpression,
) -> Hazard:
    is_named = dotted(scores) is not None
    dtype = f"{file.tree.code(scores)}.dtype" if is_named else "its dtype"
    editor = script.editor(RULE.code, file)
    masked = code("max({}, {}.finfo({}).min)", least, editor.torch(fill), dtype)
    in_place = not isinstance(fill, cst.Call) or last_word(fill.func).endswith("_")
    # What has no name is asked for no dtype: float32 has the number.
    edits = (editor.replace(least, masked),) if is_named else () if in_place else (editor.as_float(scores),)
    return Hazard(
        fill,
        f"{file.tree.quote(fill)} raises where the scores are float16",
        f"mask with torch.finfo({dtype}).min",
        () if "torch.jit" in file.tree.text else edits,
        file,
    )


def _overflows(
    script: Script,
    file: File,
    fill: cst.Call | cst.Assign,
    scores: cst.BaseExpression,
    least: cst.BaseExpression,
) -> bool:
    """Whether float16 does not have a number, and what is filled with it is float16, be it for what a plan showed."""
    value = number(file, least)
    if value is None or not float("-inf") < value < _LEAST:
        return False
    if (file.name, file.tree.position(fill)[0]) in script.settings.masked:
        return True
    precision = 0 if is_switched_off(file, fill) else script.flowing.precision_in_region(file, scores)
    # To fill with another number costs nothing where it turns out to be float32; integers have no `torch.finfo`.
    return bool(precision & LOW) and not precision & (INT | BOOL)
