"""Products of matrices, which autocast computes in low precision whatever they are given."""

from __future__ import annotations

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.trees.nodes import find

PRODUCT_FUNCTIONS = frozenset(f"torch.{name}" for name in "addmm baddbmm bmm einsum matmul mm".split()) | frozenset(
    f"torch.nn.functional.{name}" for name in "linear conv1d conv2d conv3d".split()
)
PRODUCT_METHODS = frozenset("addmm baddbmm bmm matmul mm".split())


def multiplies_matrices(file: File, code: cst.CSTNode) -> bool:
    """Whether some code computes a product of matrices by itself."""
    return any(isinstance(each.operator, cst.MatrixMultiply) for each in find(code, cst.BinaryOperation)) or any(
        file.names.callee(call) in PRODUCT_FUNCTIONS
        or (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in PRODUCT_METHODS
            and not file.names.full(call.func)
        )
        for call in find(code, cst.Call)
    )
