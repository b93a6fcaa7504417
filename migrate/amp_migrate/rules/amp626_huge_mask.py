"""Attention scores are masked with a number that float16 does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.hazards.halves import is_half
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.rule import Rule, Safety

RULE = Rule(
    code="AMP626",
    name="huge-mask",
    summary="scores that are float16 under autocast are masked with a number that float16 does not have",
    before="scores = torch.matmul(q, k.transpose(-2, -1))\nscores = scores.masked_fill(mask == 0, -1e9)",
    after=(
        "scores = torch.matmul(q, k.transpose(-2, -1))\n"
        "scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)"
    ),
    why=(
        "A product of matrices is float16 under autocast, float16 ends at -65504, and `masked_fill` raises "
        "RuntimeError for what is beyond. `torch.finfo(scores.dtype).min` is the least number of whatever dtype there "
        'is; `float("-inf")` does as well where no row is masked as a whole.'
    ),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
OF_MODELS = True
_LEAST = -65504.0
_HUGE = re.compile(r"-\s*\d[\d._]*e\+?\d|-\s*\d{6}")


def detect(script: Script) -> Iterator[Hazard]:
    """Every fill of a product of matrices with such a number, in the script and in what is below its folder."""
    if not script.computes_in_float16:
        return
    for method in ("masked_fill", "masked_fill_"):
        for file in script.models(method, _HUGE):
            for call in file.calls:
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == method and _overflows(file, call):
                    scores = call.func.value
                    dtype = f"{file.tree.code(scores)}.dtype" if isinstance(scores, cst.Name) else "its dtype"
                    yield Hazard(
                        call,
                        f"{file.tree.quote(call)} raises where the scores are float16",
                        f"mask with torch.finfo({dtype}).min",
                        file=file,
                    )


def _overflows(file: File, call: cst.Call) -> bool:
    assert isinstance(call.func, cst.Attribute)
    number = _number(file, call.args[1].value) if len(call.args) == 2 else None
    return number is not None and number < _LEAST and number != float("-inf") and is_half(file, call.func.value, call)


def _number(file: File, node: cst.BaseExpression) -> float | None:
    """The number that an expression writes out: `-1e9`, `float("-1e9")`, or a name for one."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "float" and node.args:
        text = node.args[0].value
        if isinstance(text, cst.SimpleString):
            return _read(str(text.evaluated_value))
        return _number(file, text)
    if isinstance(node, cst.Name):
        bindings = file.scopes.of(node).lookup(node.value)
        value = bindings[0].value if len(bindings) == 1 else None
        return None if value is None or isinstance(value, cst.Name) else _number(file, value)
    return _read(file.tree.code(node))


def _read(text: str) -> float | None:
    """The number that a text is; None for any other text."""
    try:
        return float(text.replace(" ", ""))
    except ValueError:
        return None
