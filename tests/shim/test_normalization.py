"""`amp_shim.normalization` against a plain float32 computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_shim import amp, normalization
from amp_shim.amp.casts.device import device_type
from amp_shim.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm
from amp_shim.policy import NATIVE_CUDA, autocast
from torch import Tensor


def layer_norm(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def rms_norm(x: Tensor, eps: float) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 8) * 1e-3


@pytest.mark.parametrize("affine", [True, False])
def test_layers_use_apexs_default_eps(x: Tensor, affine: bool) -> None:
    torch.testing.assert_close(FusedLayerNorm(8, elementwise_affine=affine)(x), layer_norm(x, 1e-5))
    torch.testing.assert_close(FusedRMSNorm([8], elementwise_affine=affine)(x), rms_norm(x, 1e-5))


def test_functions_use_an_eps_of_their_own(x: Tensor) -> None:
    w, b = torch.rand(8), torch.rand(8)
    torch.testing.assert_close(normalization.fused_layer_norm(x, 8), layer_norm(x, 1e-6))
    torch.testing.assert_close(normalization.fused_layer_norm_affine(x, w, b, 8), layer_norm(x, 1e-6) * w + b)
    torch.testing.assert_close(normalization.fused_rms_norm(x, (8,)), rms_norm(x, 1e-6))
    torch.testing.assert_close(normalization.fused_rms_norm_affine(x, w, 8), rms_norm(x, 1e-6) * w)


@pytest.mark.parametrize("layer", [MixedFusedLayerNorm(8), MixedFusedRMSNorm(8)])
def test_mixed_layers_answer_in_the_type_of_their_weight(layer: torch.nn.Module, x: Tensor) -> None:
    assert layer(x.half()).dtype is torch.float32
    assert layer.half()(x).dtype is torch.float16


@pytest.mark.parametrize("kind", [MixedFusedLayerNorm, MixedFusedRMSNorm])
def test_mixed_layers_need_their_parameters(kind: type[MixedFusedLayerNorm]) -> None:
    with pytest.raises(RuntimeError, match="has no form without parameters"):
        kind(8, elementwise_affine=False)
    with pytest.raises(TypeError, match="unexpected argument 'affine'"):
        kind(8, affine=False)


HALF = torch.float16
AFFINE = (torch.full((8,), 2.0), torch.full((8,), 0.5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "norm",
    [
        FusedLayerNorm(8),
        FusedLayerNorm(8, elementwise_affine=False),
        FusedRMSNorm(8),
        FusedRMSNorm(8, elementwise_affine=False),
        MixedFusedLayerNorm(8),
        MixedFusedRMSNorm(8),
        lambda x: normalization.fused_layer_norm(x, 8),
        lambda x: normalization.fused_layer_norm_affine(x, *AFFINE, 8),
        lambda x: normalization.mixed_dtype_fused_layer_norm_affine(x, *AFFINE, 8),
        lambda x: normalization.fused_rms_norm(x, 8),
        lambda x: normalization.fused_rms_norm_affine(x, AFFINE[0], 8),
        lambda x: normalization.mixed_dtype_fused_rms_norm_affine(x, AFFINE[0], 8),
    ],
)
def test_a_region_casts_arguments_and_result(norm: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.randn(3, 8)
    with torch.autocast(device_type(), dtype=dtype):
        inside = norm(x.to(device_type()))
    assert inside.dtype is dtype
    torch.testing.assert_close(inside.float(), norm(x), atol=2e-2, rtol=2e-2)


def test_torchs_own_layer_stays_float32_where_apexs_is_half() -> None:
    x = torch.randn(3, 8)
    with autocast(NATIVE_CUDA, "cpu", dtype=HALF):
        assert torch.nn.LayerNorm(8)(x).dtype is torch.float32
        assert FusedLayerNorm(8)(x).dtype is HALF


def test_norms_are_float_at_o1() -> None:
    amp.initialize(torch.nn.Linear(1, 1), opt_level="O1", verbosity=0)
    assert FusedLayerNorm(8)(torch.randn(3, 8)).dtype is torch.float32
    assert normalization.fused_layer_norm(torch.randn(3, 8).half(), 8).dtype is torch.float32


@pytest.mark.parametrize(
    ("function", "by_name", "arguments"),
    [
        (normalization.FusedLayerNormFunction, normalization.fused_layer_norm, ()),
        (normalization.FusedLayerNormAffineFunction, normalization.fused_layer_norm_affine, AFFINE),
        (
            normalization.FusedLayerNormAffineMixedDtypesFunction,
            normalization.mixed_dtype_fused_layer_norm_affine,
            AFFINE,
        ),
        (normalization.FusedRMSNormFunction, normalization.fused_rms_norm, ()),
        (normalization.FusedRMSNormAffineFunction, normalization.fused_rms_norm_affine, AFFINE[:1]),
        (
            normalization.FusedRMSNormAffineMixedDtypesFunction,
            normalization.mixed_dtype_fused_rms_norm_affine,
            AFFINE[:1],
        ),
    ],
)
def test_autograd_functions_are_the_functions(
    function: Any, by_name: Callable[..., Tensor], arguments: tuple[Tensor, ...]
) -> None:
    grads = []
    for call in (function.apply, by_name):
        given = [each.clone().requires_grad_() for each in (torch.linspace(-1, 2, 24).view(3, 8), *arguments)]
        result = call(*given, 8, 1e-6)
        result.backward(torch.linspace(0, 1, 24).view(3, 8))
        grads.append([result.detach(), *(each.grad for each in given)])
    for mine, other in zip(*grads, strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("layer", [FusedLayerNorm(8), FusedRMSNorm(8, elementwise_affine=False)])
def test_layers_compile_without_a_break(layer: torch.nn.Module) -> None:
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(3, 8)
    torch.testing.assert_close(compiled(x), layer(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(x).dtype is torch.bfloat16
