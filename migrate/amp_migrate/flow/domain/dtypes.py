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
