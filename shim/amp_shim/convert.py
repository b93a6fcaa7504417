"""Cast whole networks, batch norms apart."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

M = TypeVar("M", bound=nn.Module)


def convert_module(module: nn.Module, dtype: torch.dtype) -> None:
    """Cast the floating parameters (with their gradients) and buffers of one module, not of its children."""
    for param in module.parameters(recurse=False):
        if param.is_floating_point():
            param.data = param.data.to(dtype)
            if param.grad is not None:
                param.grad.data = param.grad.data.to(dtype)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point():
            setattr(module, name, buffer.to(dtype))


def convert_network(network: M, dtype: torch.dtype) -> M:
    """Cast a network in place and return it; batch norms with weights of their own stay as they are."""
    for module in network.modules():
        if isinstance(module, _BatchNorm) and module.affine:
            continue
        convert_module(module, dtype)
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return network
