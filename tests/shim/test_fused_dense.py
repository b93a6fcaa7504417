"""`amp_shim.fused_dense`."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from amp_shim.fused_dense import FusedDense, FusedDenseGeluDense


@pytest.mark.parametrize("bias", [True, False])
def test_dense_is_a_linear_layer(bias: bool) -> None:
    layer = FusedDense(4, 3, bias)
    x = torch.randn(2, 5, 4)
    assert set(layer.state_dict()) == ({"weight", "bias"} if bias else {"weight"})
    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias))


def test_two_layers_with_a_gelu_between_them() -> None:
    layers = FusedDenseGeluDense(4, 8, 3)
    assert {name: tuple(value.shape) for name, value in layers.state_dict().items()} == {
        "weight1": (8, 4),
        "bias1": (8,),
        "weight2": (3, 8),
        "bias2": (3,),
    }
    x = torch.randn(5, 4)
    hidden = x @ layers.weight1.t() + layers.bias1
    gelu = 0.5 * hidden * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)))
    torch.testing.assert_close(layers(x), gelu @ layers.weight2.t() + layers.bias2)


def test_weights_are_ready_to_train() -> None:
    for name, value in FusedDenseGeluDense(400, 100, 400).named_parameters():
        bound = 400**-0.5 if name.endswith("1") else 100**-0.5
        assert 0.9 * bound < value.abs().max() <= bound, name


def test_layers_without_bias_are_refused_as_in_apex() -> None:
    with pytest.raises(AssertionError, match="needs bias=True"):
        FusedDenseGeluDense(4, 8, 3, bias=False)
