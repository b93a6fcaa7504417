"""Lists of tensors: in float32, back in their own types, and their norms."""

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


def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The Euclidean norm of each tensor, which are float32, as a scalar.

    Like Apex's kernel it is infinite for entries beyond 1e19.
    """
    if tensors and tensors[0].device.type == "cpu":
        # PyTorch's norm loses digits there: of 33 million numbers between 0 and 1 it is off by 0.15 %.
        return [tensor.square().sum().sqrt() for tensor in tensors]
    return list(torch._foreach_norm(list(tensors)))
