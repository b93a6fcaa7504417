"""`apex.mlp`: a stack of linear layers and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

from amp_shim.support.composed import ComposedFunction

# By Apex's names, in the order of its numbers.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}


class MLP(nn.Module):
    """Linear layers, each followed by the activation, the last one too.

    Parameters are `weight_0`, `bias_0`, `weight_1`, ...; they start normally distributed.

    Args:
        mlp_sizes: features of the input, of each hidden layer, and of the output.
        bias: give the layers biases.
        activation: "relu", "sigmoid" or "none".

    Raises TypeError for another activation.
    """

    def __init__(self, mlp_sizes: Sequence[int], bias: bool = True, activation: str = "relu") -> None:
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise TypeError(f"MLP: activation must be one of {', '.join(_ACTIVATIONS)}, found {activation!r}")
        self.mlp_sizes = list(mlp_sizes)
        self.num_layers = len(mlp_sizes) - 1
        self.bias = bias
        self.activation = list(_ACTIVATIONS).index(activation)
        for index in range(self.num_layers):
            self.register_parameter(
                f"weight_{index}", Parameter(torch.empty(self.mlp_sizes[index + 1], self.mlp_sizes[index]))
            )
            if bias:
                self.register_parameter(f"bias_{index}", Parameter(torch.empty(self.mlp_sizes[index + 1])))
        self.reset_parameters()

    @property
    def weights(self) -> list[Parameter]:
        """The weights in order, each of shape (out, in)."""
        return [getattr(self, f"weight_{index}") for index in range(self.num_layers)]

    @property
    def biases(self) -> list[Parameter]:
        """The biases in order; empty without `bias`."""
        return [getattr(self, f"bias_{index}") for index in range(self.num_layers)] if self.bias else []

    def reset_parameters(self) -> None:
        """Draw every parameter anew, with variance 2 / (in + out) for weights and 1 / out for biases."""
        for weight in self.weights:
            nn.init.normal_(weight, 0.0, sqrt(2.0 / sum(weight.shape)))
        for bias in self.biases:
            nn.init.normal_(bias, 0.0, sqrt(1.0 / len(bias)))

    def forward(self, input: Tensor) -> Tensor:
        return mlp_function(self.bias, self.activation, input, *self.weights, *self.biases)

    def extra_repr(self) -> str:
        return f"MLP sizes: {self.mlp_sizes}, Bias={self.bias}, activation={list(_ACTIVATIONS)[self.activation]}"


def mlp_function(bias: bool, activation: int, input: Tensor, *parameters: Tensor) -> Tensor:
    """An MLP on parameters given one by one: all weights, then, with `bias`, all biases.

    `activation` is 0 for none, 1 for ReLU, 2 for the sigmoid.
    """
    layers = len(parameters) // 2 if bias else len(parameters)
    activate = list(_ACTIVATIONS.values())[activation]
    for index in range(layers):
        input = activate(F.linear(input, parameters[index], parameters[layers + index] if bias else None))
    return input


class MlpFunction(ComposedFunction):
    """`MlpFunction.apply(bias, activation, input, *parameters)`: `mlp_function` as an autograd function."""

    @staticmethod
    def compute(bias: bool, activation: int, input: Tensor, *parameters: Tensor) -> Tensor:
        return mlp_function(bias, activation, input, *parameters)
