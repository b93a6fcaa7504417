"""Probabilities are kept from one by a number that low precision rounds to one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.numbers import number
from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import TORCH
from amp_migrate.flow.domain.tensor import F32, F64
from amp_migrate.hazards.seen.autocast_regions import is_autocast
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import SIGMOID_FUNCTIONS
from amp_migrate.trees.nodes import find
from amp_migrate.trees.own_calls import argument

RULE = Rule(
    code="AMP631",
    name="rounded-to-one",
    summary="probabilities are kept from one by a number that low precision rounds to one",
    example="""
          import torch


          def compute_loss(logits, y):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        -         p = torch.clamp(torch.sigmoid(logits), 1e-4, 1.0 - 1e-4)
        +         p = torch.clamp(torch.sigmoid(logits).float(), 1e-4, 1.0 - 1e-4)
                  return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
        """,
    why=(
        "The number before one is 1 - 2**-11 in float16 and 1 - 2**-8 in bfloat16: `1.0 - 1e-4` is one in both, and "
        "`torch.log(1 - p)` is minus infinity for a probability of one. A sigmoid keeps the low precision of its "
        "logits under autocast. In float32 the limit holds; where the probabilities are float32 already, `.float()` "
        "changes nothing."
    ),
    sources=(f"{TORCH}/type_info.html",),
)
FLOAT16_ONLY = False
OF_MODELS = True
# Half of the step before one: what is nearer to one is rounded to it.
_NEAR_IN_FLOAT16 = 2.0**-12
_NEAR_IN_BFLOAT16 = 2.0**-9
_NEAR_IN_FLOAT32 = 2.0**-25  # such a limit is one for the original, too
_METHODS = frozenset({"clamp", "clip"})
_FUNCTIONS = frozenset({"torch.clamp", "torch.clip"})
_OPTIMIZERS = "torch.optim."
_LIMIT = re.compile(r"[(,=]\s*(?:1(?:\.0*)?\s*-|0?\.999)")


def detect(script: Script) -> Iterator[Hazard]:
    """Every such limit of probabilities in the script, and in what is below its folder."""
    if not script.computes_in_bfloat16 and not script.computes_in_float16:
        return
    near = _NEAR_IN_BFLOAT16 if script.computes_in_bfloat16 else _NEAR_IN_FLOAT16
    files = (file for method in _METHODS for file in script.models(method, _LIMIT))
    for file in dict.fromkeys(files):
        for call in file.calls:
            clamped, limit = _clamped(file, call)
            if clamped is None or not _rounds_to_one(script, file, limit, near) or not _may_be_low(script, file, call):
                continue
            if not _is_float32(script, file, clamped) and (
                _is_sigmoid(file, clamped) or _is_taken_from_one(file, call)
            ):
                yield _hazard(script, file, call, clamped, limit)


def _hazard(
    script: Script, file: File, call: cst.Call, clamped: cst.BaseExpression, limit: cst.BaseExpression | None
) -> Hazard:
    assert limit is not None
    return Hazard(
        call,
        f"{file.tree.quote(limit)} is 1 in low precision, and keeps {file.tree.quote(clamped)} from nothing",
        f"write {file.tree.quote(clamped)}.float() there",
        (script.editor(RULE.code, file).as_float(clamped),),
        file,
    )


def _clamped(file: File, call: cst.Call) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
    """What a call clamps, and its upper limit."""
    if file.names.callee(call) in _FUNCTIONS and call.args and call.args[0].keyword is None:
        return call.args[0].value, argument(call, "max", 2)
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not file.names.full(call.func):
        return call.func.value, argument(call, "max", 1)
    return None, None


def _rounds_to_one(script: Script, file: File, limit: cst.BaseExpression | None, near: float) -> bool:
    value = None if limit is None else _value(script, file, limit)
    return value is not None and _NEAR_IN_FLOAT32 < 1 - value <= near


def _value(script: Script, file: File, node: cst.BaseExpression) -> float | None:
    """What `1 - 1e-4` is, or `1 - eps` where `eps` has one value or a default."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
        left, right = number(file, node.left), number(file, node.right)
        if right is None and dotted(node.right) is not None:
            right = max(script.flowing.numbers_of(file, node.right), default=None)
        return None if left is None or right is None else left - right
    return number(file, node)


def _is_sigmoid(file: File, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call):
        return False
    is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value in ("sigmoid", "sigmoid_")
    return is_method or file.names.callee(node) in SIGMOID_FUNCTIONS


def _is_taken_from_one(file: File, call: cst.Call) -> bool:
    """Whether the function goes on to compute `1 - p`, and a logarithm of something."""
    statement = file.tree.statement(call)
    if not (isinstance(statement, cst.Assign) and statement.value is call):
        return False
    name = dotted(statement.targets[0].target)
    body = file.tree.body(call)
    taken = any(
        isinstance(each.operator, cst.Subtract) and number(file, each.left) == 1.0 and dotted(each.right) == name
        for each in find(body, cst.BinaryOperation)
    )
    names = (each.func.attr if isinstance(each.func, cst.Attribute) else each.func for each in find(body, cst.Call))
    return taken and any(isinstance(each, cst.Name) and each.value in ("log", "logit") for each in names)


def _is_float32(script: Script, file: File, node: cst.BaseExpression) -> bool:
    """Whether an expression is float32 wherever it is computed, as far as its own file tells."""
    precision = script.flowing.precision_in_region(file, node)
    return bool(precision) and not precision & ~(F32 | F64)


def _may_be_low(script: Script, file: File, call: cst.Call) -> bool:
    """Whether a place is in a region, or in a function that one may call and that does not decide by itself."""
    if file is script.file and script.region_around(call) is not None:
        return True
    is_decided = any(is_autocast(file, each) for each in file.tree.ancestors(call))
    return not is_decided and file.tree.function(call) is not None and not _is_of_optimizer(file, call)


def _is_of_optimizer(file: File, call: cst.Call) -> bool:
    """Whether an optimizer computes it, which no region runs: from weights, and for them."""
    owner = file.tree.owner_class(call)
    return owner is not None and any(file.names.full(each.value).startswith(_OPTIMIZERS) for each in owner.bases)
