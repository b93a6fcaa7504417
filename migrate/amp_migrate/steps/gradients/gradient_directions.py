"""Reads of gradients that come to the same whatever the loss was multiplied by.

Adversarial training moves embeddings along a gradient that is divided by its own norm, and puts gradients aside to give
them back: it needs no unscaled ones.
"""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.values.numbers import number
from amp_migrate.trees.nodes import find

_NORMS = frozenset({"torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm"})
_TESTS = frozenset({"torch.isfinite", "torch.isinf", "torch.isnan"})
# What is added to a norm so that nobody divides by zero.
_MOST_EPSILON = 1e-4


def is_free_of_scale(file: File, node: cst.Attribute) -> bool:
    """Whether a read of `x.grad` is for its direction alone, or puts it aside."""
    tree = file.tree
    parent = tree.parents[node]
    if isinstance(parent, cst.Comparison):
        return all(isinstance(each.operator, (cst.Is, cst.IsNot)) for each in parent.comparisons)
    norm = _norm_of(file, node)
    if norm is not None:
        return _only_divides(file, norm, tree.code(node))
    if _is_copied(file, node):
        return True
    return any(_is_divided(file, each, tree.code(node)) for each in _products_with(file, node))


def _norm_of(file: File, node: cst.Attribute) -> cst.Call | None:
    """The call that takes a gradient's norm, and nothing else of it."""
    parent = file.tree.parents[node]
    call = file.tree.parents[parent]
    if not isinstance(call, cst.Call):
        return None
    if isinstance(parent, cst.Attribute):
        return call if parent.attr.value == "norm" and call.func is parent and not call.args else None
    is_norm = isinstance(parent, cst.Arg) and len(call.args) == 1 and file.names.callee(call) in _NORMS
    return call if is_norm else None


def _only_divides(file: File, norm: cst.Call, gradient: str) -> bool:
    """Whether a norm, or the name that it gets, only divides the gradient that it is of, or is tested."""
    tree = file.tree
    statement = tree.parents[norm]
    if not isinstance(statement, cst.Assign):
        return _divides(file, norm, gradient)
    target = statement.targets[0].target
    if len(statement.targets) > 1 or not isinstance(target, cst.Name):
        return False
    names = (each for each in find(tree.body(statement), cst.Name) if each.value == target.value)
    uses = [each for each in names if each is not target and not _is_member(file, each)]
    return bool(uses) and all(_divides(file, each, gradient) or _is_tested(file, each) for each in uses)


def _is_member(file: File, name: cst.Name) -> bool:
    """Whether a name is that of an attribute: `torch.norm`."""
    parent = file.tree.parents[name]
    return isinstance(parent, cst.Attribute) and parent.attr is name


def _divides(file: File, norm: cst.BaseExpression, gradient: str) -> bool:
    """Whether an expression is the divisor of its gradient, alone or with an epsilon."""
    parent = file.tree.parents[norm]
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Add):
        epsilon = number(file, parent.right)
        if epsilon is None or epsilon > _MOST_EPSILON:
            return False
        norm, parent = parent, file.tree.parents[parent]
    if not _is_quotient(parent) or parent.right is not norm:
        return False
    return any(file.tree.code(each) == gradient for each in (parent.left, *find(parent.left, cst.Attribute)))


def _is_quotient(node: cst.CSTNode | None) -> TypeGuard[cst.BinaryOperation]:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide)


def _is_tested(file: File, norm: cst.BaseExpression) -> bool:
    """Whether a norm is compared with zero, or asked whether it is a number."""
    parent = file.tree.parents[norm]
    if isinstance(parent, cst.Comparison):
        return len(parent.comparisons) == 1 and number(file, parent.comparisons[0].comparator) == 0
    call = file.tree.parents[parent] if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.names.callee(call) in _TESTS


def _products_with(file: File, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """An expression and the products that it is a factor of: `x.grad`, `epsilon * x.grad`."""
    found = [node]
    parent = file.tree.parents[node]
    while isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Multiply):
        found.append(parent)
        parent = file.tree.parents[parent]
    return found


def _is_divided(file: File, node: cst.BaseExpression, gradient: str) -> bool:
    """Whether an expression is divided by the norm of its gradient."""
    parent = file.tree.parents[node]
    if not _is_quotient(parent) or parent.left is not node:
        return False
    divisor = parent.right
    if isinstance(divisor, cst.BinaryOperation) and isinstance(divisor.operator, cst.Add):
        divisor = divisor.left
    values = [divisor]
    if isinstance(divisor, cst.Name):
        bound = file.scopes.of(divisor).lookup(divisor.value)
        values = [each.value for each in bound if each.value is not None]
    reads = (each for value in values for each in find(value, cst.Attribute) if file.tree.code(each) == gradient)
    norms = [_norm_of(file, each) for each in reads]
    return bool(norms) and norms == values


def _is_copied(file: File, node: cst.Attribute) -> bool:
    """Whether a gradient is put aside, `kept[name] = x.grad.clone()`, or given back: `x.grad = kept[name]`."""
    parent = file.tree.parents[node]
    statement = file.tree.statement(node)
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return False
    target = statement.targets[0].target
    if isinstance(parent, cst.AssignTarget):
        return isinstance(statement.value, cst.Subscript)
    is_clone = isinstance(parent, cst.Attribute) and parent.attr.value == "clone"
    return is_clone and isinstance(target, cst.Subscript) and file.tree.parents[parent] is statement.value
