"""A matrix is inverted or taken apart in half precision, for which there is no kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule, example
from amp_migrate.hazards.seen.autocast_regions import is_left_to_callers
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script

RULE = Rule(
    code="AMP632",
    name="no-half-kernel",
    summary="a matrix is inverted or taken apart in half precision, for which there is no kernel",
    before=example(
        """
        import torch


        def spectrum(features):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                covariance = features.t() @ features
                return torch.svd(covariance)
        """
    ),
    after=example(
        """
        import torch


        def spectrum(features):
            with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                covariance = features.t() @ features
                return torch.svd(covariance.float())
        """
    ),
    why=(
        "Products of matrices are float16 or bfloat16 under autocast, and what solves, inverts or decomposes a matrix "
        "takes float32 and float64 only: `torch.inverse(a @ b)` raises. Autocast does not cast for it. Where the "
        "matrix is float32 already, `.float()` changes nothing."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/40427",),
)
FLOAT16_ONLY = False
OF_MODELS = True
_LINALG = (
    "cholesky cholesky_ex cond det eig eigh eigvals eigvalsh householder_product inv inv_ex ldl_factor lstsq lu "
    "lu_factor lu_factor_ex matrix_power matrix_rank pinv qr slogdet solve solve_ex solve_triangular svd svdvals "
    "tensorinv tensorsolve"
).split()
_TOP = (
    "cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve ormqr pinverse qr slogdet svd "
    "triangular_solve"
).split()
_FUNCTIONS = frozenset({*(f"torch.linalg.{name}" for name in _LINALG), *(f"torch.{name}" for name in _TOP)})
_METHODS = frozenset(_TOP)
_SIGN = re.compile(rf"\blinalg\b|\b(?:{'|'.join(_TOP)})\s*\(")


def detect(script: Script) -> Iterator[Hazard]:
    """Every such call on the product of matrices, in a region of the script and in the modules that it may run."""
    if not script.computes_in_bfloat16 and not script.computes_in_float16:
        return
    for file in dict.fromkeys((script.file, *script.modules(_may_matter))):
        for call in file.calls if _may_matter(file.tree.text) else ():
            for matrix in _matrices(file, call) if _runs_low(script, file, call) else ():
                tensor = script.flowing.tensor_in_region(file, matrix)
                if tensor is not None and tensor.may_be_low:
                    yield _hazard(script, file, matrix)


def _may_matter(text: str) -> bool:
    return _SIGN.search(text) is not None


def _matrices(file: File, call: cst.Call) -> list[cst.BaseExpression]:
    """What a call takes apart or solves for."""
    values = [arg.value for arg in call.args if not arg.star]
    if file.names.callee(call) in _FUNCTIONS:
        return values
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not file.names.full(call.func):
        return [call.func.value, *values]
    return []


def _runs_low(script: Script, file: File, call: cst.Call) -> bool:
    in_region = file is script.file and script.region_around(call) is not None
    return in_region or is_left_to_callers(file, call)


def _hazard(script: Script, file: File, matrix: cst.BaseExpression) -> Hazard:
    repair = (script.editor(RULE.code, file).as_float(matrix),)
    quoted = file.tree.quote(matrix)
    return Hazard(matrix, f"no kernel takes {quoted} in half precision", f"write {quoted}.float() there", repair, file)
