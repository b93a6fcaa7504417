"""Adagrad's kernel of `amp_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lists import Lists, floats, write


@torch.no_grad()
def multi_tensor_adagrad(
    chunk_size: int, flag: Tensor | None, tensor_lists: Lists, lr: float, eps: float, mode: int, weight_decay: float
) -> None:
    """Adagrad for lists [gradients, parameters, sums of squares]; `mode` 1 decays weights beside the gradient.

    `chunk_size` and `flag` are unused. Any of the lists may be half; what is computed is float32.
    """
    grads, weights, sums = (floats(each) for each in tensor_lists)
    if weight_decay and not mode:
        grads = list(torch._foreach_add(grads, weights, alpha=weight_decay))
    torch._foreach_addcmul_(sums, grads, grads)
    roots = torch._foreach_sqrt(sums)
    torch._foreach_add_(roots, eps)
    if mode:
        torch._foreach_mul_(weights, 1.0 - lr * weight_decay)
    torch._foreach_addcdiv_(weights, grads, roots, -lr)
    write(tensor_lists[1], weights)
    write(tensor_lists[2], sums)
