"""A leaky ReLU as a compiled kernel, which takes float32 alone."""

from pathlib import Path

import torch
from torch import nn
from torch.autograd import Function
from torch.utils.cpp_extension import load

folder = Path(__file__).parent
compiled = load("leaky", sources=[str(folder / "leaky.cpp"), str(folder / "leaky.cu")])


class LeakyFunction(Function):
    @staticmethod
    def forward(ctx, input, slope):
        out = compiled.leaky(input, slope)
        ctx.save_for_backward(out)
        ctx.slope = slope
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (out,) = ctx.saved_tensors
        return torch.where(out > 0, grad_output, grad_output * ctx.slope), None


class Leaky(nn.Module):
    def forward(self, input):
        return LeakyFunction.apply(input.contiguous(), 0.2)
