"""`amp_shim.normalization` against a plain float32 computation."""

from __future__ import annotations

import pytest
import torch
from amp_shim import normalization
from amp_shim.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm
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
