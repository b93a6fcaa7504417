"""PyTorch's dtypes and tensor types by their full names: the precision that each stands for."""

from __future__ import annotations

from amp_migrate.flow.domain.tensor import BF16, BOOL, COMPLEX, F16, F32, F64, INT

# The dtype of each precision that has but one, by its usual name.
DTYPE_OF = {
    F16: "torch.float16",
    BF16: "torch.bfloat16",
    F32: "torch.float32",
    F64: "torch.float64",
    BOOL: "torch.bool",
}
DTYPES = {
    **{name: precision for precision, name in DTYPE_OF.items()},
    "torch.half": F16,
    "torch.float": F32,
    "torch.double": F64,
    **dict.fromkeys((f"torch.{name}" for name in "int64 long int32 int int16 short int8 uint8".split()), INT),
    **dict.fromkeys((f"torch.{name}" for name in "complex64 complex128 cfloat cdouble".split()), COMPLEX),
}
# What is called as a constructor, and what `Tensor.type` takes: `torch.FloatTensor`, `torch.cuda.FloatTensor`.
TENSOR_TYPES = {
    f"torch.{place}{name}Tensor": precision
    for place in ("", "cuda.")
    for name, precision in {
        **dict.fromkeys(("", "Float"), F32),
        **dict.fromkeys(("Long", "Int", "Short", "Char", "Byte"), INT),
        "Half": F16,
        "BFloat16": BF16,
        "Double": F64,
        "Bool": BOOL,
    }.items()
    if place + name != "cuda."  # there is no `torch.cuda.Tensor`
}
PRECISIONS = DTYPES | TENSOR_TYPES
# What `finfo` says of a dtype of so many bits of a mantissa and so large an exponent, by the dtype's full name.
_FORMATS = {
    "torch.float32": (23, 127),
    "torch.float64": (52, 1023),
    "torch.float16": (10, 15),
    "torch.bfloat16": (7, 127),
}
_ALSO = {
    "torch.float32": ("torch.float", "numpy.float32", "numpy.single"),
    "torch.float64": ("torch.double", "numpy.float64", "numpy.double", "builtins.float"),
    "torch.float16": ("torch.half", "numpy.float16", "numpy.half"),
    "torch.bfloat16": (),
}
LIMITS = {
    name: {
        "eps": 2.0**-bits,
        **dict.fromkeys(("tiny", "smallest_normal"), 2.0 ** (1 - exponent)),
        "max": (2 - 2.0**-bits) * 2.0**exponent,
        "min": -(2 - 2.0**-bits) * 2.0**exponent,
    }
    for dtype, (bits, exponent) in _FORMATS.items()
    for name in (dtype, *_ALSO[dtype])
}
