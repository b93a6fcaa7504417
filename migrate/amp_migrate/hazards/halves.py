"""Which expressions of a model are float16 when it runs under autocast, as far as one function shows."""

from __future__ import annotations

import re

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.scopes import Binding
from amp_migrate.trees.tree import find

# Products of matrices, which autocast computes in low precision whatever they are given.
_FUNCTIONS = frozenset(f"torch.{name}" for name in "addmm baddbmm bmm einsum matmul mm".split()) | {
    "torch.nn.functional.linear"
}
_METHODS = frozenset("addmm baddbmm bmm matmul mm".split())
_KEEPS_DTYPE = frozenset(
    "clone contiguous div expand flatten masked_fill mul permute reshape squeeze transpose unsqueeze view".split()
)
_NUMBER_NAME = re.compile(r"scal|temper|sqrt|dim|head|norm|factor|d_k", re.IGNORECASE)
_MAX_STEPS = 8


def is_half(file: File, node: cst.BaseExpression, at: cst.CSTNode, steps: int = _MAX_STEPS) -> bool:
    """Whether an expression is the product of matrices, scaled and reshaped at most, in the function of `at`."""
    if steps == 0:
        return False
    if isinstance(node, cst.Name):
        binding = _last_before(file, node, at)
        value = None if binding is None else binding.value
        return binding is not None and value is not None and is_half(file, value, binding.node, steps - 1)
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.MatrixMultiply):
            return True
        scaled = isinstance(node.operator, (cst.Multiply, cst.Divide)) and _is_number(node.right)
        return scaled and is_half(file, node.left, at, steps - 1)
    if isinstance(node, cst.Call):
        if file.names.callee(node) in _FUNCTIONS:
            return True
        if isinstance(node.func, cst.Attribute) and not file.names.full(node.func):
            method = node.func.attr.value
            keeps = method.removesuffix("_") in _KEEPS_DTYPE
            return method in _METHODS or (keeps and is_half(file, node.func.value, at, steps - 1))
    return False


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


def multiplies_matrices(file: File, code: cst.CSTNode) -> bool:
    """Whether some code computes a product of matrices by itself."""
    return any(isinstance(each.operator, cst.MatrixMultiply) for each in find(code, cst.BinaryOperation)) or any(
        file.names.callee(call) in _FUNCTIONS
        or (
            isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not file.names.full(call.func)
        )
        for call in find(code, cst.Call)
    )
