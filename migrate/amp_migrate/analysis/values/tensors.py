"""What PyTorch's functions and arithmetic give: a tensor or a number, and no object of a class of the project."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File, object_bindings
from amp_migrate.analysis.objects import handed_back
from amp_migrate.tables import operators
from amp_migrate.tables.torch_names import LOSS_CLASS_SUFFIX
from amp_migrate.trees.nodes import arms, is_constant

_OPERATORS = operators.AUTOCAST.keys() | operators.RESULT.keys() | operators.CREATED | operators.LIKE


def is_computed(file: File, node: cst.BaseExpression, known: frozenset[cst.CSTNode] = frozenset()) -> bool:
    """Whether an expression is computed, in as much as no operator of a class of the project computes it.

    Args:
        known: values that are taken for computed: a name may go on from what it stood for.
    """
    return all(_is_computed(file, each, known) for each in arms(node))


def _is_computed(file: File, node: cst.BaseExpression, known: frozenset[cst.CSTNode]) -> bool:
    node = handed_back(node)
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BaseNumber)):
        return True
    if isinstance(node, cst.Call):
        return _computes(file, node, known)
    given = [each.value or each.node for each in object_bindings(file, node)]
    given = [each for each in given if not is_constant(each, "None")]
    new = [each for each in given if each not in known]
    return bool(given) and all(
        isinstance(each, cst.AugAssign)
        or (isinstance(each, cst.BaseExpression) and is_computed(file, each, known.union(new)))
        for each in new
    )


def _computes(file: File, call: cst.Call, known: frozenset[cst.CSTNode]) -> bool:
    """Whether a call is of a function of PyTorch's, of a tensor's method, or of one of PyTorch's criteria."""
    full = file.names.callee(call)
    if full:
        return full.startswith("torch.") and full.removeprefix("torch.").removeprefix("nn.functional.") in _OPERATORS
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in _OPERATORS
    if is_method and is_computed(file, cst.ensure_type(call.func, cst.Attribute).value, known):
        return True
    made = [call.func] if isinstance(call.func, cst.Call) else [each.value for each in object_bindings(file, call.func)]
    return bool(made) and all(each is not None and _is_criterion(file, each) for each in made)


def _is_criterion(file: File, value: cst.BaseExpression) -> bool:
    made = handed_back(value)
    full = file.names.callee(made) if isinstance(made, cst.Call) else ""
    return full.startswith("torch.nn.") and full.endswith(LOSS_CLASS_SUFFIX)
