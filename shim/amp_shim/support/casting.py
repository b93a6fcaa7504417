"""Cast what is more than a tensor: nests of values, modules, whole networks."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

M = TypeVar("M", bound=nn.Module)

LOW_PRECISION = (torch.float16, torch.bfloat16)


def cast_floating(value: Any, dtype: torch.dtype) -> Any:
    """`value` with every floating tensor in it cast: through lists, tuples, sets, mappings and objects with a `to`."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, str) or type(value).__module__ == "numpy":
        return value
    if hasattr(value, "to"):
        return value.to(dtype)
    if isinstance(value, Mapping):
        return _cast_mapping(value, dtype)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [cast_floating(item, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


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


def _cast_mapping(value: Mapping[Any, Any], dtype: torch.dtype) -> Any:
    cast = {key: cast_floating(item, dtype) for key, item in value.items()}
    if type(value) is dict or not hasattr(value, "__setitem__"):
        return cast
    # A copy keeps the class: an OrderedDict, or the output object of a library with attributes beside its keys.
    same = copy.copy(value)
    for key, item in cast.items():
        same[key] = item
    return same
