"""A number that is to keep a float16 tensor from zero is zero in float16 itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.numbers import number
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP, TORCH
from amp_migrate.flow.domain.tensor import LOW
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP627",
    name="tiny-epsilon",
    summary="a number that is zero in float16 is to keep what is float16 under autocast from zero",
    example="""
          import torch


          def attend(q, k):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -         scores = torch.relu(q @ k.transpose(-2, -1))
        +         scores = torch.relu(q @ k.transpose(-2, -1)).float()
                  return scores / (scores.mean(-1, keepdim=True) + 1e-8)
        """,
    why=(
        "The least number of float16 is 6e-8: half of it and less is rounded to zero, so that `x + 1e-8` is `x` and "
        "`x.clamp(min=1e-8)` is zero where `x` is. A division by it, or its logarithm, is infinite then. Products of "
        "matrices are float16 under autocast, and `relu`, `sigmoid`, `mean` and their like keep that. What autocast "
        "computes in float32 (`sum`, `norm`, `softmax`, `exp`, `F.normalize`, layer norms) may have any epsilon, "
        "and so may optimizers."
    ),
    sources=(f"{AMP}#cuda-ops-that-can-autocast-to-float16", f"{TORCH}/type_info.html"),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
OF_MODELS = True
_ROUNDS_TO_ZERO = 2.0**-25  # half of the least number, and what is below
_METHODS = frozenset({"clamp", "clamp_", "clamp_min", "clamp_min_", "clip", "clip_"})
_FUNCTIONS = frozenset({"torch.clamp", "torch.clamp_min", "torch.clip"})
# Such a number in a text that is not parsed: most are the epsilon of a layer or an optimizer, and do no harm.
_TINY = r"[\d.]e-(?:0?[89]|[1-9]\d)\b"
_NUMBER = re.compile(_TINY, re.IGNORECASE)
# Lines on which such a number is added, is the limit of a clamp, or gets a name that may be.
_USED = re.compile(
    r"\+ | \b(?:def|lambda)\b | cl(?:amp|ip)"
    rf"| ^[ \t]*(?:[\w.]+[ \t]*(?::[^=]*)?=[ \t]*)?(?:float\([\"\'])?[\d.]*{_TINY}"
    rf"| {_TINY}[^\n]*\)[ \t]*(?:->[^\n]*)?:[ \t]*$",
    re.IGNORECASE | re.VERBOSE,
)


def detect(script: Script) -> Iterator[Hazard]:
    """Every such sum or clamp in a region of the script, and in the modules of it and of what is below its folder."""
    if not script.computes_in_float16:
        return
    for file in dict.fromkeys((script.file, *script.modules(may_be_added))):
        for guarded, tiny, node in _guarded(file) if may_be_added(file.tree.text) else ():
            written = number(file, tiny)
            is_asked = _is_tiny(written) or (written is None and dotted(tiny) is not None)
            if not is_asked or not _runs_in_float16(script, file, node):
                continue
            numbers = script.flowing.numbers_of(file, tiny) if written is None else (written,)
            if not numbers or not all(map(_is_tiny, numbers)):
                continue
            precision = script.flowing.precision_in_region(file, guarded)
            if precision and not precision & ~LOW:
                known = f" where it is {numbers[-1]:g}" if written is None else ""
                quoted = file.tree.quote(guarded)
                yield Hazard(
                    node,
                    f"{file.tree.quote(tiny)} is zero in float16{known}, and keeps {quoted} from nothing",
                    f"write {quoted}.float() there, or a number from 1e-7 up",
                    file=file,
                )


def _guarded(file: File) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression]]:
    """What something is added to, or is clamped to from below, with that, and the expression of both."""
    for node in file.tree.every(cst.BinaryOperation):
        if isinstance(node.operator, cst.Add):
            yield node.left, node.right, node
            yield node.right, node.left, node
    for call in file.calls:
        if file.names.callee(call) in _FUNCTIONS and call.args:
            tensor, least = call.args[0].value, argument(call, "min", 1)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS:
            tensor, least = call.func.value, argument(call, "min", 0)
        else:
            continue
        if least is not None:
            yield tensor, least, call


def _is_tiny(value: float | None) -> bool:
    return value is not None and 0 < value <= _ROUNDS_TO_ZERO


def _runs_in_float16(script: Script, file: File, node: cst.CSTNode) -> bool:
    """Whether a place is in a float16 region of the script, or in a module that may run in one."""
    region = script.region_around(node) if file is script.file else None
    if region is not None:
        return region.is_float16
    return script.may_enter(file, node)


def may_be_added(text: str) -> bool:
    """Whether a number from 1e-8 down may be added to something, or be the limit of a clamp, as far as lines tell."""
    for found in _NUMBER.finditer(text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : (text.find("\n", found.end()) + 1 or len(text) + 1) - 1]
        if _USED.search(line):
            return True
    return False
