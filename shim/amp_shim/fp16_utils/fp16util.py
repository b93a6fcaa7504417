"""Half networks, and the way between half model parameters and float32 masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import clip_grad_norm_

from amp_shim.support.casting import convert_module, convert_network

__all__ = [
    "BN_convert_float",
    "FP16Model",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]

M = TypeVar("M", bound=nn.Module)

clip_grad_norm = clip_grad_norm_


class tofp16(nn.Module):
    """A module that returns its input in half."""

    def forward(self, input: Tensor) -> Tensor:
        return input.half()


class FP16Model(nn.Module):
    """A network in half, batch norms with weights apart, as `network`. Floating inputs are cast to half."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.float16)

    def forward(self, *inputs: Tensor) -> Any:
        return self.network(*(value.half() if value.is_floating_point() else value for value in inputs))


def BN_convert_float(module: M) -> M:
    """Cast every batch norm that has weights to float32, in place, and return the module."""
    for child in module.modules():
        if isinstance(child, _BatchNorm) and child.affine:
            child.float()
    return module


def network_to_half(network: nn.Module) -> nn.Sequential:
    """The network in half behind a cast of its one input: keys of its state dict begin with `1.`."""
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[Parameter], list[Parameter]]:
    """The model's trainable parameters, and float32 masters of them for an optimizer.

    With `flat_master` there is one master: all parameters flattened into one vector, with a gradient of zeros.

    Raises RuntimeError if parameters that are to be flattened are not of one type.
    """
    model_params = [param for param in model.parameters() if param.requires_grad]
    if not flat_master:
        return model_params, [Parameter(param.detach().float().clone()) for param in model_params]
    dtypes = {param.dtype for param in model_params}
    if len(dtypes) > 1:
        raise RuntimeError(
            f"prep_param_lists: flat_master=True needs parameters of one type, found {sorted(map(str, dtypes))}; "
            "use flat_master=False"
        )
    master = Parameter(_flat(model_params).float())
    master.grad = torch.zeros_like(master)
    return model_params, [master]


@torch.no_grad()
def model_grads_to_master_grads(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Copy gradients to the masters, as they are: unscaling is left to the caller.

    A parameter without a gradient leaves its master without one. Raises RuntimeError if a flat master's parameter has
    none.
    """
    if flat_master:
        grads = [param.grad for param in model_params if param.grad is not None]
        if len(grads) < len(model_params):
            raise RuntimeError("model_grads_to_master_grads: every parameter of a flat master needs a gradient")
        master_params[0].grad = _flat(grads).to(master_params[0].dtype)
        return
    for param, master in zip(model_params, master_params, strict=True):
        if param.grad is None:
            master.grad = None
        elif master.grad is None:
            master.grad = param.grad.detach().to(master.dtype, copy=True)
        else:
            master.grad.copy_(param.grad)


@torch.no_grad()
def master_params_to_model_params(
    model_params: Sequence[Tensor], master_params: Sequence[Tensor], flat_master: bool = False
) -> None:
    """Round the masters into the model's parameters."""
    masters = list(master_params)
    if flat_master:
        pieces = masters[0].split([param.numel() for param in model_params])
        masters = [piece.view_as(param) for piece, param in zip(pieces, model_params, strict=True)]
    if masters:
        torch._foreach_copy_(list(model_params), masters)


def to_python_float(t: Any) -> float:
    """The number in a tensor of one element, or the first entry of a sequence."""
    return float(t.item() if hasattr(t, "item") else t[0])


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
