"""`apex.normalization`, on torch's own functions.

In an autocast region layers and functions cast to its type, as Apex's did: their results are half. torch's own layers
run in float32 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Size, Tensor, nn

from amp_shim.amp.casts.device import device_type
from amp_shim.amp.state import _amp_state
from amp_shim.support.composed import ComposedFunction

Shape = int | Sequence[int] | Size
Norm = Callable[..., Tensor]


class FusedLayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` whose result has the type of an autocast region.

    `memory_efficient` is how Apex's kernel saved its input; results do not depend on it.
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__(_tuple(normalized_shape), eps, elementwise_affine)
        self.memory_efficient = memory_efficient

    def forward(self, input: Tensor) -> Tensor:
        if not self.elementwise_affine:
            return fused_layer_norm(input, self.normalized_shape, self.eps)
        return fused_layer_norm_affine(input, self.weight, self.bias, self.normalized_shape, self.eps)


class FusedRMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm` with Apex's default eps of 1e-5, whose result has the type of an autocast region."""

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__(_tuple(normalized_shape), eps, elementwise_affine)
        self.memory_efficient = memory_efficient

    def forward(self, input: Tensor) -> Tensor:
        assert self.eps is not None
        if not self.elementwise_affine:
            return fused_rms_norm(input, self.normalized_shape, self.eps)
        return fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps)


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
    return _in_region(_layer_norm, normalized_shape, eps, input)


def fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Layer norm with weight and bias."""
    return _in_region(_layer_norm, normalized_shape, eps, input, weight, bias)


def mixed_dtype_fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Layer norm with weight and bias, in the type of its weight."""
    return _in_region(_mixed_layer_norm, normalized_shape, eps, input, weight, bias)


def fused_rms_norm(input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False) -> Tensor:
    """RMS norm without a weight."""
    return _in_region(_rms_norm, normalized_shape, eps, input)


def fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """RMS norm with a weight."""
    return _in_region(_rms_norm, normalized_shape, eps, input, weight)


def mixed_dtype_fused_rms_norm_affine(
    input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """RMS norm with a weight, in the type of its weight."""
    return _in_region(_mixed_rms_norm, normalized_shape, eps, input, weight)


class FusedLayerNormFunction(ComposedFunction):
    """`FusedLayerNormFunction.apply(input, normalized_shape, eps)`"""

    @staticmethod
    def compute(input: Tensor, normalized_shape: Shape, eps: float, memory_efficient: bool = False) -> Tensor:
        return _layer_norm(normalized_shape, eps, input)


class FusedLayerNormAffineFunction(ComposedFunction):
    """`FusedLayerNormAffineFunction.apply(input, weight, bias, normalized_shape, eps)`"""

    @staticmethod
    def compute(
        input: Tensor,
        weight: Tensor,
        bias: Tensor,
        normalized_shape: Shape,
        eps: float,
        memory_efficient: bool = False,
    ) -> Tensor:
        return _layer_norm(normalized_shape, eps, input, weight, bias)


class FusedLayerNormAffineMixedDtypesFunction(ComposedFunction):
    """`FusedLayerNormAffineFunction` with a result in the type of the weight."""

    @staticmethod
    def compute(
        input: Tensor,
        weight: Tensor,
        bias: Tensor,
        normalized_shape: Shape,
        eps: float,
        memory_efficient: bool = False,
    ) -> Tensor:
        return _mixed_layer_norm(normalized_shape, eps, input, weight, bias)


class FusedRMSNormFunction(ComposedFunction):
    """`FusedRMSNormFunction.apply(input, normalized_shape, eps)`"""

    @staticmethod
    def compute(input: Tensor, normalized_shape: Shape, eps: float, memory_efficient: bool = False) -> Tensor:
        return _rms_norm(normalized_shape, eps, input)


class FusedRMSNormAffineFunction(ComposedFunction):
    """`FusedRMSNormAffineFunction.apply(input, weight, normalized_shape, eps)`"""

    @staticmethod
    def compute(
        input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float, memory_efficient: bool = False
    ) -> Tensor:
        return _rms_norm(normalized_shape, eps, input, weight)


class FusedRMSNormAffineMixedDtypesFunction(ComposedFunction):
    """`FusedRMSNormAffineFunction` with a result in the type of the weight."""

    @staticmethod
    def compute(
        input: Tensor, weight: Tensor, normalized_shape: Shape, eps: float, memory_efficient: bool = False
    ) -> Tensor:
        return _mixed_rms_norm(normalized_shape, eps, input, weight)


def manual_rms_norm(input: Tensor, normalized_shape: Shape, weight: Tensor | None, eps: float) -> Tensor:
    """RMS norm by plain operators: statistics in float32, result in the type of a half weight."""
    return _rms_norm(normalized_shape, eps, *(each for each in (input, weight) if each is not None))


def _in_region(norm: Norm, normalized_shape: Shape, eps: float, *tensors: Tensor) -> Tensor:
    """A norm as Apex ran it: in an autocast region its arguments are cast, and so is its result.

    At O1 Apex did not cast them, but neither was a half input taken: there torch's own rule holds, which is float32.
    """
    device = device_type()
    at_o1 = _amp_state.handle is not None and _amp_state.handle.is_active()
    if at_o1 or tensors[0].device.type != device or not torch.is_autocast_enabled(device):
        return norm(normalized_shape, eps, *tensors)
    dtype = torch.get_autocast_dtype(device)
    cast = [tensor if tensor.dtype is torch.float64 else tensor.to(dtype) for tensor in tensors]
    with torch.autocast(device, enabled=False):
        return norm(normalized_shape, eps, *cast)


def _layer_norm(
    normalized_shape: Shape, eps: float, input: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    return F.layer_norm(input, _tuple(normalized_shape), weight, bias, eps)


def _rms_norm(normalized_shape: Shape, eps: float, input: Tensor, weight: Tensor | None = None) -> Tensor:
    return F.rms_norm(input, list(_tuple(normalized_shape)), weight, eps)


def _mixed_layer_norm(normalized_shape: Shape, eps: float, input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _layer_norm(normalized_shape, eps, input.float(), weight.float(), bias.float()).to(weight.dtype)


def _mixed_rms_norm(normalized_shape: Shape, eps: float, input: Tensor, weight: Tensor) -> Tensor:
    return _rms_norm(normalized_shape, eps, input.float(), weight.float()).to(weight.dtype)


def _tuple(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _refuse_plain(name: str, options: dict[str, Any]) -> None:
    affine = options.pop("elementwise_affine", True)
    if options:
        raise TypeError(f"{name} got an unexpected argument {next(iter(options))!r}")
    if not affine:
        raise RuntimeError(f"{name} has no form without parameters; use FusedLayerNorm or FusedRMSNorm")
