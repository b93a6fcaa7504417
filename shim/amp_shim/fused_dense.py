"""`apex.fused_dense`: linear layers, with a GELU between two of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

from amp_shim.support.composed import ComposedFunction


class FusedDense(nn.Linear):
    """A linear layer: `(..., in_features)` to `(..., out_features)`.

    Args:
        in_features: features of the input.
        out_features: features of the output.
        bias: add a learnable bias.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)


class FusedDenseGeluDense(nn.Module):
    """Two linear layers with a GELU between them: `(..., in_features)` to `(..., out_features)`.

    The GELU is the tanh approximation, as cuBLAS computes it. Parameters are `weight1`, `bias1`, `weight2` and `bias2`;
    they start as those of `nn.Linear`.

    Args:
        in_features: features of the input.
        intermediate_features: features between the layers.
        out_features: features of the output.
        bias: has to be true, as in Apex.

    Raises AssertionError without `bias`.
    """

    def __init__(self, in_features: int, intermediate_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        if not bias:
            raise AssertionError("FusedDenseGeluDense needs bias=True: without it, use nn.Linear and nn.GELU")
        self.in_features = in_features
        self.intermediate_features = intermediate_features
        self.out_features = out_features
        self.weight1 = Parameter(torch.empty(intermediate_features, in_features))
        self.bias1 = Parameter(torch.empty(intermediate_features))
        self.weight2 = Parameter(torch.empty(out_features, intermediate_features))
        self.bias2 = Parameter(torch.empty(out_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew, uniformly within one by the root of its layer's inputs."""
        for weight, bias in ((self.weight1, self.bias1), (self.weight2, self.bias2)):
            bound = weight.shape[1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return fused_dense_gelu_dense_function(input, self.weight1, self.bias1, self.weight2, self.bias2)


def fused_dense_function(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer on a weight of shape `(out_features, in_features)`."""
    return F.linear(input, weight, bias)


def dense_no_bias_function(input: Tensor, weight: Tensor) -> Tensor:
    """A linear layer without bias."""
    return F.linear(input, weight)


def fused_dense_gelu_dense_function(
    input: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor
) -> Tensor:
    """Two linear layers with a GELU between them."""
    return F.linear(F.gelu(F.linear(input, weight1, bias1), approximate="tanh"), weight2, bias2)


class FusedDenseFunc(ComposedFunction):
    """`FusedDenseFunc.apply(input, weight, bias)`"""

    compute = staticmethod(fused_dense_function)


class DenseNoBiasFunc(ComposedFunction):
    """`DenseNoBiasFunc.apply(input, weight)`"""

    compute = staticmethod(dense_no_bias_function)


class FusedDenseGeluDenseFunc(ComposedFunction):
    """`FusedDenseGeluDenseFunc.apply(input, weight1, bias1, weight2, bias2)`"""

    compute = staticmethod(fused_dense_gelu_dense_function)
