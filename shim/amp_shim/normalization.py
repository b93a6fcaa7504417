"""`apex.normalization`, on torch's own layers and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Size, Tensor, nn

Shape = int | Sequence[int] | Size


class FusedLayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm`. `memory_efficient` is how Apex's kernel saved its input; results do not depend on it."""

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__(_tuple(normalized_shape), eps, elementwise_affine)
        self.memory_efficient = memory_efficient


class FusedRMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm` with Apex's default eps of 1e-5."""

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__(_tuple(normalized_shape), eps, elementwise_affine)
        self.memory_efficient = memory_efficient


class MixedFusedLayerNorm(FusedLayerNorm):
    """Layer norm whose output has the type of its parameters, whatever the input's.

    Raises RuntimeError for `elementwise_affine=False`.
    """

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _refuse_plain("MixedFusedLayerNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: Tensor) -> Tensor:
        return mixed_dtype_fused_layer_norm_affine(input, self.weight, self.bias, self.normalized_shape, self.eps)


class MixedFusedRMSNorm(FusedRMSNorm):
    """RMS norm whose output has the type of its weight, whatever the input's.

    Raises RuntimeError for `elementwise_affine=False`.
    """

    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, *, memory_efficient: bool = False, **kwargs: Any
    ) -> None:
        _refuse_plain("MixedFusedRMSNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient)

    def forward(self, input: Tensor) -> Tensor:
        assert self.eps is not None
        return mixed_dtype_fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps)


def fused_layer_norm(
    input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Layer norm without parameters."""
    return F.layer_norm(input, _tuple(normalized_shape), None, None, eps)


def fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Layer norm with weight and bias."""
    return F.layer_norm(input, _tuple(normalized_shape), weight, bias, eps)


def mixed_dtype_fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Layer norm computed in float32, in the type of its weight."""
    normed = F.layer_norm(input.float(), _tuple(normalized_shape), weight.float(), bias.float(), eps)
    return normed.to(weight.dtype)


def fused_rms_norm(input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False) -> Tensor:
    """RMS norm without a weight."""
    return F.rms_norm(input, list(_tuple(normalized_shape)), None, eps)


def fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """RMS norm with a weight."""
    return F.rms_norm(input, list(_tuple(normalized_shape)), weight, eps)


def mixed_dtype_fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """RMS norm computed in float32, in the type of its weight."""
    return F.rms_norm(input.float(), list(_tuple(normalized_shape)), weight.float(), eps).to(weight.dtype)


def _tuple(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _refuse_plain(name: str, options: dict[str, Any]) -> None:
    affine = options.pop("elementwise_affine", True)
    if options:
        raise TypeError(f"{name} got an unexpected argument {next(iter(options))!r}")
    if not affine:
        raise RuntimeError(f"{name} has no form without parameters; use FusedLayerNorm or FusedRMSNorm")
