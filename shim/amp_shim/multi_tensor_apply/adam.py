"""Adam's kernel of `amp_C`, which subclasses of `FusedAdam` call from a `step()` of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lists import Lists


@torch.no_grad()
def multi_tensor_adam(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    step: int,
    mode: int,
    bias_correction: int,
    weight_decay: float,
) -> None:
    """One step of Adam in place, for lists [gradients, parameters, first moments, second moments].

    Args:
        chunk_size: unused.
        flag: unused; an inf or a NaN goes through to the parameters, as in Apex.
        tensor_lists: the moments are float32; gradients and parameters may be half.
        lr, beta1, beta2, eps, weight_decay: Adam's.
        step: how many steps there are with this one.
        mode: 1 decays weights beside the gradient (AdamW); 0 adds the decay to the gradient.
        bias_correction: whether the moments are corrected for having started from zero.
    """
    grads, params, firsts, seconds = (list(each) for each in tensor_lists)
    if not params:
        return
    weights = [each.float() for each in params]
    grads = [each.float() for each in grads]
    if mode:
        torch._foreach_mul_(weights, 1.0 - lr * weight_decay)
    else:
        grads = list(torch._foreach_add(grads, weights, alpha=weight_decay))
    corrections = (1.0 - beta1**step, 1.0 - beta2**step) if bias_correction else (1.0, 1.0)
    torch._foreach_lerp_(firsts, grads, 1.0 - beta1)
    torch._foreach_mul_(seconds, beta2)
    torch._foreach_addcmul_(seconds, grads, grads, 1.0 - beta2)
    denominators = list(torch._foreach_sqrt(torch._foreach_div(seconds, corrections[1])))
    torch._foreach_add_(denominators, eps)
    torch._foreach_addcdiv_(weights, firsts, denominators, -lr / corrections[0])
    torch._foreach_copy_(params, weights)
