"""NovoGrad's kernel of `amp_C`."""

from __future__ import annotations

from math import inf, sqrt

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lists import Lists, floats, norms, write


@torch.no_grad()
def multi_tensor_novograd(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    grad_norms: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    bias_correction: int,
    weight_decay: float,
    grad_averaging: int,
    moment_mode: int,
    norm_type: int,
) -> None:
    """NovoGrad for lists [gradients, parameters, first moments].

    Args:
        chunk_size: unused.
        flag: unused; an inf or a NaN goes through to the parameters, as in Apex.
        tensor_lists: any of them may be half; what is computed is float32.
        grad_norms: running norms of the gradients, float32 of shape (n,), which take in the new ones.
        lr, beta1, beta2, eps, weight_decay: Adam's.
        step: how many steps there are with this one.
        bias_correction: whether moments are corrected for having started from zero.
        grad_averaging: whether a new gradient weighs `1 - beta1` in the first moment, or 1.
        moment_mode: 0 adds the decay to the gradient before momentum; 1 adds it to the update.
        norm_type: 2 for Euclidean norms, 0 for the largest entry.
    """
    grads, weights, firsts = (floats(each) for each in tensor_lists)
    corrections = (1.0 - beta1**step, sqrt(1.0 - beta2**step)) if bias_correction else (1.0, 1.0)
    new = torch.stack(norms(grads) if norm_type == 2 else list(torch._foreach_norm(grads, inf)))
    if norm_type == 2:
        grad_norms.copy_((grad_norms.square() * beta2 + new.square() * (1.0 - beta2)).sqrt())
    else:
        grad_norms.lerp_(new, 1.0 - beta2)
    denominators = (grad_norms / corrections[1] + eps).unbind()
    share = 1.0 - beta1 if grad_averaging else 1.0
    torch._foreach_mul_(firsts, beta1)
    if moment_mode == 0:
        normalised = list(torch._foreach_div(grads, denominators))
        if weight_decay:
            torch._foreach_add_(normalised, weights, alpha=weight_decay)
        torch._foreach_add_(firsts, normalised, alpha=share)
        updates = torch._foreach_div(firsts, corrections[0])
    else:
        torch._foreach_add_(firsts, grads, alpha=share)
        updates = torch._foreach_div(torch._foreach_div(firsts, corrections[0]), denominators)
        if weight_decay:
            torch._foreach_add_(updates, weights, alpha=weight_decay)
    torch._foreach_add_(weights, updates, alpha=-lr)
    write(tensor_lists[1], weights)
    write(tensor_lists[2], firsts)
