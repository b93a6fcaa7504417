"""`amp_shim.mlp.MLP`."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from amp_shim import amp
from amp_shim.mlp import MLP, mlp_function
from torch import Tensor, nn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("activation", "function"), [("relu", torch.relu), ("sigmoid", torch.sigmoid), ("none", nn.Identity())]
)
def test_every_layer_is_followed_by_the_activation(
    activation: str, function: Callable[[Tensor], Tensor], bias: bool
) -> None:
    mlp = MLP([4, 8, 3], bias=bias, activation=activation)
    x = torch.randn(5, 4)
    expected = x
    for index in range(2):
        expected = expected @ getattr(mlp, f"weight_{index}").t()
        expected = function(expected + getattr(mlp, f"bias_{index}") if bias else expected)
    torch.testing.assert_close(mlp(x), expected)
    assert set(mlp.state_dict()) == {f"{kind}_{i}" for kind in ("weight", "bias")[: 1 + bias] for i in range(2)}
    torch.testing.assert_close(mlp_function(bias, mlp.activation, x, *mlp.weights, *mlp.biases), expected)


def test_weights_are_drawn_with_the_variance_of_their_shape() -> None:
    mlp = MLP([300, 500])
    assert mlp.weights[0].std().item() == pytest.approx((2 / 800) ** 0.5, rel=0.02)
    assert mlp.biases[0].std().item() == pytest.approx((1 / 500) ** 0.5, rel=0.15)


def test_copy_runs_its_own_weights() -> None:
    mlp = MLP([2, 2])
    other = copy.deepcopy(mlp)
    nn.init.zeros_(other.weights[0])
    assert not torch.equal(other.weights[0], mlp.weights[0])
    assert torch.equal(other(torch.ones(1, 2)), other.biases[0].relu()[None])


def test_layers_run_in_half_at_o1() -> None:
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=0)
    assert MLP([2, 3])(torch.ones(1, 2)).dtype is torch.float16


def test_unknown_activation_is_refused() -> None:
    with pytest.raises(TypeError, match="none, relu, sigmoid, found 'tanh'"):
        MLP([1, 1], activation="tanh")


def test_sizes_are_shown() -> None:
    assert "MLP sizes: [4, 8], Bias=True, activation=relu" in repr(MLP([4, 8]))
