"""`amp_shim.fused_dense`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from amp_shim import fused_dense
from amp_shim.fused_dense import FusedDense, FusedDenseGeluDense
from torch import Tensor


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


@pytest.mark.parametrize(
    ("function", "by_name", "shapes"),
    [
        (fused_dense.FusedDenseFunc, fused_dense.fused_dense_function, [(3, 4), (3,)]),
        (fused_dense.DenseNoBiasFunc, fused_dense.dense_no_bias_function, [(3, 4)]),
        (
            fused_dense.FusedDenseGeluDenseFunc,
            fused_dense.fused_dense_gelu_dense_function,
            [(8, 4), (8,), (3, 8), (3,)],
        ),
    ],
)
def test_autograd_functions_are_the_functions(
    function: Any, by_name: Callable[..., Tensor], shapes: list[tuple[int, ...]]
) -> None:
    results = []
    for call in (function.apply, by_name):
        torch.manual_seed(0)
        given = [torch.randn(shape, requires_grad=True) for shape in ((5, 4), *shapes)]
        result = call(*given)
        result.square().sum().backward()
        results.append([result.detach(), *(each.grad for each in given)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other)
