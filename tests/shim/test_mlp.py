"""`amp_shim.mlp.MLP`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.mlp import MLP, MlpFunction, mlp_function
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


class Own(torch.autograd.Function):
    """A script's function round Apex's, whose arguments are cast."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)  # type: ignore[untyped-decorator]
    def forward(*args: Any) -> Tensor:
        return MlpFunction.forward(*args)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Any) -> Any:
        return MlpFunction.backward(ctx, *grads)


@pytest.mark.parametrize(("function", "tolerance"), [(MlpFunction, 1e-6), (Own, 3e-2)])
@pytest.mark.parametrize("bias", [True, False])
def test_autograd_function_can_be_applied_and_called_from_another(function: Any, tolerance: float, bias: bool) -> None:
    torch.manual_seed(0)
    results = []
    for call in (function.apply, mlp_function):
        torch.manual_seed(0)
        mlp = MLP([4, 8, 3], bias=bias, activation="sigmoid")
        x = torch.linspace(-1, 1, 20).view(5, 4).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=function is Own and call is not mlp_function):
            result = call(bias, mlp.activation, x, *mlp.weights, *mlp.biases)
        result.float().sum().backward()
        results.append([result.detach().float(), x.grad, *(param.grad for param in mlp.parameters())])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, atol=tolerance, rtol=tolerance)


def test_autograd_function_takes_arguments_as_they_are_in_a_region() -> None:
    mlp = MLP([2, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert MlpFunction.apply(True, 1, torch.ones(1, 2), *mlp.weights, *mlp.biases).dtype is torch.float32
        assert mlp(torch.ones(1, 2)).dtype is torch.bfloat16
