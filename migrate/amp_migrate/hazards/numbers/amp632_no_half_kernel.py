"""A matrix is inverted or taken apart, or a Fourier transform computed, in half precision, which has no kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.catalog.rule import Rule
from amp_migrate.flow.domain.tensor import LOW
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.operators import IN_FLOAT32, OF_PARTS, TRANSFORMS

RULE = Rule(
    code="AMP632",
    name="no-half-kernel",
    summary="a matrix is inverted, taken apart or transformed by FFT in half precision, for which there is no kernel",
    example="""
          import torch


          def spectrum(features):
              with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                  covariance = features.t() @ features
        -         return torch.svd(covariance)
        +         return torch.svd(covariance.float())
        """,
    why=(
        "Products of matrices are float16 or bfloat16 under autocast, and what solves, inverts or decomposes a matrix "
        "takes float32 and float64 only: `torch.inverse(a @ b)` raises. Autocast does not cast for it. Where the "
        "matrix is float32 already, `.float()` changes nothing. The same holds for `torch.fft` and `torch.stft` of "
        "what a convolution gives: on CUDA autocast has no rule for them (on the CPU it has one, so that no run there "
        "shows it), and cuFFT takes float16 only where all sizes are powers of two, and bfloat16 never. Where it "
        "takes it, what comes out is complex float16, whose sums end at 65,504."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/40427",
        "https://docs.pytorch.org/docs/stable/generated/torch.fft.fftn.html",
    ),
)
FLOAT16_ONLY = False
OF_MODELS = True
_NAMES = sorted({name.rpartition(".")[2] for name in IN_FLOAT32})
_SIGN = re.compile(rf"\b(?:{'|'.join(_NAMES)})\s*\(")


def detect(script: Script) -> Iterator[Hazard]:
    """Every such call on the product of matrices, in a region of the script and in the modules that it may run."""
    if not script.computes_in_bfloat16 and not script.computes_in_float16:
        return
    for file in dict.fromkeys((script.file, *script.modules(_may_matter))):
        for call, operator in _without_kernel(script, file) if _may_matter(file.tree.text) else ():
            owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
            for operand in (*owner, *(arg.value for arg in call.args)):
                if script.flowing.precision_in_region(file, operand) & LOW:
                    yield _hazard(script, file, operand, operator)


def _without_kernel(script: Script, file: File) -> Iterator[tuple[cst.Call, str]]:
    """The calls in regions of a script, and in what it may run, that no kernel may serve there, with their operator."""
    for call, operator in script.flowing.without_kernel_in_region(file):
        if isinstance(call, cst.Call) and operator in IN_FLOAT32 and _runs_low(script, file, call):
            yield call, operator


def _may_matter(text: str) -> bool:
    return _SIGN.search(text) is not None


def _runs_low(script: Script, file: File, call: cst.Call) -> bool:
    in_region = file is script.file and script.region_around(call) is not None
    return in_region or script.may_enter(file, call)


def _hazard(script: Script, file: File, matrix: cst.BaseExpression, operator: str) -> Hazard:
    repair = (script.editor(RULE.code, file).as_float(matrix),)
    quoted = file.tree.quote(matrix)
    message = f"no kernel takes {quoted} in half precision"
    if operator in TRANSFORMS:
        message += ", but cuFFT's for float16 of sizes that are powers of two"
    if operator in OF_PARTS:
        message = f"complex numbers are made of {quoted} in half precision, which few kernels take"
    return Hazard(matrix, message, f"write {quoted}.float() there", repair, file)
