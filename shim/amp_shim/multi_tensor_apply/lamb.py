"""LAMB's kernel of `amp_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lamb_stages import trust_ratios
from amp_shim.multi_tensor_apply.lists import Lists, floats, write


@torch.no_grad()
def multi_tensor_lamb(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    mode: int,
    global_grad_norm: Tensor,
    max_grad_norm: float,
    use_nvlamb: bool = False,
) -> None:
    """LAMB for lists [gradients, parameters, first moments, second moments]; gradients become updates.

    Args:
        chunk_size: unused.
        flag: unused; an inf or a NaN goes through to the parameters, as in Apex.
        tensor_lists: any of them may be half; what is computed is float32.
        lr, beta1, beta2, eps, weight_decay: Adam's.
        step: how many steps there are with this one.
        bias_correction: whether moments are corrected for having started from zero.
        grad_averaging: whether a new gradient weighs `1 - beta1` in the first moment, or 1.
        mode: 1 decays weights beside the gradient; 0 adds the decay to the gradient.
        global_grad_norm: norm of all gradients of the model, one element.
        max_grad_norm: what gradients are scaled down to where their norm is greater.
        use_nvlamb: scale updates without weight decay too.
    """
    grads, weights, firsts, seconds = (floats(each) for each in tensor_lists)
    clip = (global_grad_norm.reshape(()) / max_grad_norm).clamp(min=1.0)
    scaled = list(torch._foreach_div(grads, clip))
    if weight_decay and not mode:
        torch._foreach_add_(scaled, weights, alpha=weight_decay)
    corrections = (1.0 - beta1**step, 1.0 - beta2**step) if bias_correction else (1.0, 1.0)
    torch._foreach_mul_(firsts, beta1)
    torch._foreach_add_(firsts, scaled, alpha=1.0 - beta1 if grad_averaging else 1.0)
    torch._foreach_mul_(seconds, beta2)
    torch._foreach_addcmul_(seconds, scaled, scaled, 1.0 - beta2)
    roots = torch._foreach_sqrt(torch._foreach_div(seconds, corrections[1]))
    torch._foreach_add_(roots, eps)
    updates = list(torch._foreach_div(torch._foreach_div(firsts, corrections[0]), roots))
    if weight_decay and mode:
        torch._foreach_add_(updates, weights, alpha=weight_decay)
    torch._foreach_copy_(list(tensor_lists[0]), updates)
    if weight_decay or use_nvlamb:
        torch._foreach_mul_(updates, trust_ratios(weights, updates))
    torch._foreach_add_(weights, updates, alpha=-lr)
    for tensors, values in zip(tensor_lists[1:], (weights, firsts, seconds), strict=True):
        write(tensors, values)
