"""SGD's kernel of `amp_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lists import Lists, floats, write


@torch.no_grad()
def multi_tensor_sgd(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    weight_decay: float,
    momentum: float,
    dampening: float,
    lr: float,
    nesterov: bool,
    first_run: bool,
    wd_after_momentum: bool,
    scale: float,
) -> None:
    """SGD for lists [gradients, parameters, momenta], or with half copies of the parameters as a fourth list.

    Args:
        chunk_size: unused.
        flag: nothing is done where it is set.
        tensor_lists: any of them may be half; what is computed is float32.
        weight_decay, momentum, dampening, lr, nesterov: as in torch.
        first_run: whether momenta start from the gradient.
        wd_after_momentum: whether the decay is added behind the momentum.
        scale: what gradients are multiplied by first.
    """
    if bool(flag):
        return
    grads, weights, momenta = (floats(each) for each in tensor_lists[:3])
    updates = list(torch._foreach_mul(grads, scale))
    if weight_decay and not wd_after_momentum:
        torch._foreach_add_(updates, weights, alpha=weight_decay)
    if momentum:
        if first_run:
            torch._foreach_copy_(momenta, updates)
        else:
            torch._foreach_mul_(momenta, momentum)
            torch._foreach_add_(momenta, updates, alpha=1.0 - dampening)
        updates = list(torch._foreach_add(updates, momenta, alpha=momentum)) if nesterov else momenta
    if weight_decay and wd_after_momentum:
        updates = list(torch._foreach_add(updates, weights, alpha=weight_decay))
    torch._foreach_add_(weights, updates, alpha=-lr)
    write(tensor_lists[1], weights)
    write(tensor_lists[2], momenta)
    for copies in tensor_lists[3:]:
        torch._foreach_copy_(list(copies), weights)
