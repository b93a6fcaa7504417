"""An own autograd function multiplies matrices under autocast and does not say in which dtype."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.products import multiplies_matrices
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.rule import Rule, Safety
from amp_migrate.trees.nodes import find

RULE = Rule(
    code="AMP625",
    name="uncast-function",
    summary="an own autograd function multiplies matrices under autocast and does not say in which dtype",
    before=(
        "class Linear(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, weight):\n"
        "        ctx.save_for_backward(x, weight)\n"
        "        return x.mm(weight.t())"
    ),
    after=(
        "class Linear(torch.autograd.Function):\n"
        "    @staticmethod\n"
        '    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n'
        "    def forward(ctx, x, weight):\n"
        "        ctx.save_for_backward(x, weight)\n"
        "        return x.mm(weight.t())"
    ),
    why=(
        "Under autocast the forward computes in low precision, while what it saves for the backward is as it came, and "
        "the backward runs without autocast: it multiplies a low-precision gradient with a float32 tensor, and raises. "
        "`custom_fwd` with `cast_inputs` fixes the dtype of both, and `custom_bwd` gives the backward the state of the "
        "forward."
    ),
    safety=Safety.MANUAL,
    since=(2, 4),
)
FLOAT16_ONLY = False
OF_MODELS = True
_FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_DECLARED = re.compile(r"\bFunction\s*\)")


def detect(script: Script) -> Iterator[Hazard]:
    """Every such class in the script, and in what is below its folder, where something autocasts."""
    if not (script.moved or script.regions):
        return
    for file in script.models("save_for_backward", _DECLARED):
        for node in file.tree.every(cst.ClassDef):
            if any(file.names.full(base.value) in _FUNCTION for base in node.bases):
                forward = _mixing_forward(file, node)
                if forward is not None:
                    yield Hazard(
                        forward,
                        f"{node.name.value} multiplies matrices in a dtype that autocast decides in forward alone",
                        "decorate forward with custom_fwd(device_type=..., cast_inputs=torch.float32), backward with "
                        "custom_bwd(device_type=...)",
                        file=file,
                    )


def _mixing_forward(file: File, owner: cst.ClassDef) -> cst.FunctionDef | None:
    """The forward of a function whose two directions multiply matrices, in dtypes that nobody has fixed."""
    methods = {method.name.value: method for method in find(owner.body, cst.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or not _saves_several(forward):
        return None
    decorators = [name.value for method in (forward, backward) for d in method.decorators for name in find(d, cst.Name)]
    if any("custom_fwd" in name or "custom_bwd" in name or "autocast" in name for name in decorators):
        return None
    casts = [name.value for method in (forward, backward) for name in find(method.body, cst.Name)]
    if any(name in ("float", "to", "type", "type_as", "dtype", "autocast", "half") for name in casts):
        return None
    both = all(multiplies_matrices(file, method.body) for method in (forward, backward))
    return forward if both else None


def _saves_several(forward: cst.FunctionDef) -> bool:
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "save_for_backward" and len(call.args) > 1
        for call in find(forward.body, cst.Call)
    )
