"""Lists of tensors in float32, and back in their own types."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Lists = Sequence[Sequence[Tensor]]


def floats(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in float32: themselves where they are float32 already."""
    return [tensor.float() for tensor in tensors]


def write(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Round the values into the tensors, but for those that are the tensors themselves."""
    pairs = [(tensor, value) for tensor, value in zip(tensors, values, strict=True) if tensor is not value]
    if pairs:
        torch._foreach_copy_([tensor for tensor, _ in pairs], [value for _, value in pairs])
