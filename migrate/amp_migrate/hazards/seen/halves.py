"""Which expressions of a model are float16 when it runs under autocast, as far as one function shows."""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.analysis.bindings import Binding
from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.values.matrix_products import PRODUCT_FUNCTIONS, PRODUCT_METHODS
from amp_migrate.hazards.seen.autocast_regions import is_autocast, is_switched_off
from amp_migrate.trees.nodes import method_of

_LAYERS = frozenset(
    f"torch.nn.{name}" for name in "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d".split()
)
KEEPS_DTYPE = frozenset(
    (
        "abs amax amin clone contiguous detach div expand flatten masked_fill mean mul neg permute relu reshape "
        "sigmoid sqrt squeeze tanh transpose unsqueeze view"
    ).split()
)
FUNCTIONS_THAT_KEEP = frozenset(
    f"torch.{name}" for name in "abs amax amin mean neg relu sigmoid sqrt tanh".split()
) | frozenset(f"torch.nn.functional.{name}" for name in "dropout leaky_relu relu sigmoid tanh".split())
_NUMBER_NAME = re.compile(r"scal|temper|sqrt|dim|head|norm|factor|d_k", re.IGNORECASE)
_MAX_STEPS = 8


def is_half(file: File, node: cst.BaseExpression, at: cst.CSTNode) -> bool:
    """Whether an expression is the product of matrices, or what keeps the dtype of one, in the function of `at`.

    Where autocast is switched off, products have the dtype of what is given, which this does not know.
    """
    return not is_switched_off(file, at) and _is_product(file, node, at, _MAX_STEPS)


def _is_product(file: File, node: cst.BaseExpression, at: cst.CSTNode, steps: int) -> bool:
    if steps == 0:
        return False
    if isinstance(node, cst.Name):
        binding = _last_before(file, node, at)
        value = None if binding is None else binding.value
        return binding is not None and value is not None and _is_product(file, value, binding.node, steps - 1)
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.MatrixMultiply):
            return True
        scaled = isinstance(node.operator, (cst.Multiply, cst.Divide)) and _is_number(node.right)
        return scaled and _is_product(file, node.left, at, steps - 1)
    if isinstance(node, cst.Call):
        function = file.names.callee(node)
        if function in PRODUCT_FUNCTIONS or _is_layer(file, node.func):
            return True
        if function in FUNCTIONS_THAT_KEEP:
            return bool(node.args) and _is_product(file, node.args[0].value, at, steps - 1)
        if isinstance(node.func, cst.Attribute) and not file.names.full(node.func):
            method = node.func.attr.value
            keeps = method.removesuffix("_") in KEEPS_DTYPE
            return method in PRODUCT_METHODS or (keeps and _is_product(file, node.func.value, at, steps - 1))
    return False


def is_left_to_callers(file: File, node: cst.CSTNode) -> bool:
    """Whether a place is in a method of a module, which has no region of its own around it."""
    owner = file.tree.owner_class(node)
    is_module = owner is not None and method_of(owner, "forward") is not None
    return is_module and not any(is_autocast(file, each) for each in file.tree.ancestors(node))


def _is_layer(file: File, node: cst.BaseExpression) -> bool:
    """Whether an object is a layer that multiplies matrices, as far as it is made in the class or the function."""
    bindings = object_bindings(file, node)
    return bool(bindings) and all(file.names.callee(each.value) in _LAYERS for each in bindings)


def _last_before(file: File, name: cst.Name, at: cst.CSTNode) -> Binding | None:
    """What a name was last given before a place, in the order of the text."""
    order = file.tree.order
    before = [each for each in file.scopes.of(name).lookup(name.value) if order[each.node] < order[at]]
    return max(before, key=lambda each: order[each.node], default=None)


def _is_number(node: cst.BaseExpression) -> bool:
    """Whether a factor is a number, so that the product keeps its dtype."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.BinaryOperation):
        return _is_number(node.left)
    if isinstance(node, cst.Call):
        word = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        return isinstance(word, cst.Name) and word.value in ("sqrt", "float", "int", "size", "pow")
    word = node.attr if isinstance(node, cst.Attribute) else node
    return isinstance(word, cst.Name) and _NUMBER_NAME.search(word.value) is not None
