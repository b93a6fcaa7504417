"""What a sigmoid that stands in an expression is given.

In float16 a sigmoid is 1 for every logit above 8, and in bfloat16 above 6. A probability of 1 that should be 0 gets a
gradient of NaN in float16 and of 0 in bfloat16, so the sigmoid has to see float32, not only the loss.
"""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.files import File
from amp_migrate.analysis.roles import Roles
from amp_migrate.tables.torch_names import SIGMOID_CLASS, SIGMOID_FUNCTIONS

# Methods that hand on the values they are called on.
_SHAPES = frozenset("view reshape squeeze unsqueeze flatten contiguous permute transpose".split())


def logits(roles: Roles, file: File, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a sigmoid is given; None where an expression is none."""
    value = _unshaped(value)
    if not isinstance(value, cst.Call):
        return None
    if isinstance(value.func, cst.Attribute) and value.func.attr.value == "sigmoid" and not value.args:
        return value.func.value
    if len(value.args) != 1 or value.args[0].star:
        return None
    made = [each.value for each in roles.bindings(file, value.func)] or [value.func]
    is_object = any(file.names.callee(each) == SIGMOID_CLASS for each in made if each is not None)
    return value.args[0].value if is_object or file.names.callee(value) in SIGMOID_FUNCTIONS else None


def _unshaped(value: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without the subscripts and the changes of shape behind it."""
    while True:
        if isinstance(value, cst.Subscript):
            value = value.value
        elif (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in _SHAPES
            and dotted(value.func.value) not in ("torch", "F")
        ):
            value = value.func.value
        else:
            return value
