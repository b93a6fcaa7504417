"""An own autograd function multiplies matrices or runs a kernel in a dtype that autocast decides."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import EXAMPLES
from amp_migrate.flow.events import Act, Event
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.trees.nodes import find, method_of

RULE = Rule(
    code="AMP625",
    name="uncast-function",
    summary="an own autograd function multiplies matrices or runs a kernel in a dtype that autocast decides",
    example="""
          import torch


          class Product(torch.autograd.Function):
              @staticmethod
        +     @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
              def forward(ctx, x, weight):
                  ctx.save_for_backward(x, weight)
                  return x.mm(weight.t())

              @staticmethod
        +     @torch.amp.custom_bwd(device_type="cuda")
              def backward(ctx, grad):
                  x, weight = ctx.saved_tensors
                  return grad.mm(weight), grad.t().mm(x)


          def predict(x, weight):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  return Product.apply(x, weight)
        """,
    why=(
        "Under autocast the forward computes in low precision, while what it saves for the backward is as it came, and "
        "the backward runs without autocast: it multiplies a low-precision gradient with a float32 tensor, and raises. "
        "`custom_fwd` with `cast_inputs` fixes the dtype of both, and `custom_bwd` gives the backward the state of the "
        "forward. A kernel that is given the memory of a tensor (`x.data_ptr()`) reads it as the type it was compiled "
        "for, whatever autocast has made of it."
    ),
    sources=(f"{EXAMPLES}#autocast-and-custom-autograd-functions",),
    safety=Safety.MANUAL,
    since=(2, 4),
)
FLOAT16_ONLY = False
OF_MODELS = True
_FUNCTION = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_DECLARED = re.compile(r"\bFunction\s*\)")
_CASTS = frozenset("float to type type_as dtype autocast half".split())
# A kernel lies deeper than the model that it is for: script, model, layers, layer, functions, function.
_MAX_IMPORTS = 6
# Of a gradient in low precision and a float32 tensor, PyTorch makes no product.
_IN_FORWARD = (
    "multiplies matrices in a dtype that autocast decides in forward alone: backward raises where it saved float32"
)
_HINT = (
    "decorate forward with custom_fwd(device_type=..., cast_inputs=torch.float32), backward with "
    "custom_bwd(device_type=...)"
)
_PRODUCT_FUNCTIONS = frozenset(f"torch.{name}" for name in "addmm baddbmm bmm einsum matmul mm".split()) | frozenset(
    f"torch.nn.functional.{name}" for name in "linear conv1d conv2d conv3d".split()
)
_PRODUCT_METHODS = frozenset("addmm baddbmm bmm matmul mm".split())


def detect(script: Script) -> Iterator[Hazard]:
    """Every such class in the script, and in what is below its folder, where something autocasts."""
    if not (script.moved or script.regions):
        return
    for file in script.models("save_for_backward", _DECLARED):
        for node in _functions(file):
            forward = _mixing_forward(file, node)
            if forward is not None:
                reason = f"{node.name.value} {_IN_FORWARD}"
                yield Hazard(forward, reason, _HINT, file=file)
    for file in script.models("data_ptr", _DECLARED, _MAX_IMPORTS):
        for node in _functions(file):
            forward = _kernel_forward(node)
            if forward is not None:
                reason = f"{node.name.value} gives a kernel tensors in a dtype that autocast decides"
                yield Hazard(forward, reason, _HINT, file=file)
    yield from _of_two_dtypes(script)


def _of_two_dtypes(script: Script) -> Iterator[Hazard]:
    """Every such class whose forward gives a kernel what a region made low together with what it left in float32."""
    if not script.has_amp or not script.regions:
        return
    met: dict[tuple[str, int], Event] = {}
    for event in script.flowing.questions.events(Act.MISMATCH):
        if event.context is not None and event.context.in_gradient and event.code.parent is not None:
            met.setdefault((event.code.file, event.code.parent.site.line), event)
    for file in script.models("save_for_backward", _DECLARED, _MAX_IMPORTS) if met else ():
        for node in _functions(file):
            found, forward = met.get((file.name, file.tree.position(node)[0])), method_of(node, "forward")
            # What casts by itself may do so where nobody sees that it does.
            if found and forward and (any(found.sure_in.values()) or not _casts(node)):
                reason = f"{node.name.value} gives {found.why} tensors of two dtypes under autocast"
                yield Hazard(forward, reason, _HINT, file=file)


def _functions(file: File) -> Iterator[cst.ClassDef]:
    """The autograd functions that nobody has given a dtype."""
    for node in file.tree.every(cst.ClassDef):
        if any(file.names.full(base.value) in _FUNCTION for base in node.bases) and not _is_decorated(node):
            yield node


def _is_decorated(node: cst.ClassDef) -> bool:
    """Whether some method says what autocast is to do: `custom_fwd`, `custom_bwd`, `autocast`."""
    decorators = [each for method in find(node.body, cst.FunctionDef) for each in method.decorators]
    names = [name.value for each in decorators for name in find(each, cst.Name)]
    return any("custom_fwd" in name or "custom_bwd" in name or "autocast" in name for name in names)


def _kernel_forward(owner: cst.ClassDef) -> cst.FunctionDef | None:
    """The forward of a function that hands the memory of tensors to a kernel, and casts none of them."""
    forward = method_of(owner, "forward")
    if forward is None or _names_in(forward) & _CASTS:
        return None
    return forward if "data_ptr" in _names_in(forward) else None


def _mixing_forward(file: File, owner: cst.ClassDef) -> cst.FunctionDef | None:
    """The forward of a function whose two directions multiply matrices, in dtypes that nobody has fixed."""
    methods = {method.name.value: method for method in find(owner.body, cst.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or not _saves_several(forward):
        return None
    if (_names_in(forward) | _names_in(backward)) & _CASTS:
        return None
    both = all(_multiplies_matrices(file, method.body) for method in (forward, backward))
    return forward if both else None


def _saves_several(forward: cst.FunctionDef) -> bool:
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "save_for_backward" and len(call.args) > 1
        for call in find(forward.body, cst.Call)
    )


def _casts(owner: cst.ClassDef) -> bool:
    return any(_names_in(each) & _CASTS for each in find(owner.body, cst.FunctionDef))


def _names_in(method: cst.FunctionDef) -> set[str]:
    return {name.value for name in find(method.body, cst.Name)}


def _multiplies_matrices(file: File, code: cst.CSTNode) -> bool:
    """Whether some code computes a product of matrices by itself."""
    return any(isinstance(each.operator, cst.MatrixMultiply) for each in find(code, cst.BinaryOperation)) or any(
        file.names.callee(call) in _PRODUCT_FUNCTIONS
        or (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in _PRODUCT_METHODS
            and not file.names.full(call.func)
        )
        for call in find(code, cst.Call)
    )
