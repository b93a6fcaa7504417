"""The two halves of LAMB in `amp_C`, between which scripts take norms of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.lists import Lists, norms


@torch.no_grad()
def multi_tensor_lamb_stage1_cuda(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    per_tensor_decay: Tensor,
    step: int,
    beta1: float,
    beta2: float,
    eps: float,
    global_grad_norm: Tensor,
    max_global_grad_norm: float,
) -> None:
    """Move Adam's moments and write the update, for lists [gradients, parameters, first, second moments, updates].

    Args:
        chunk_size: unused.
        flag: unused; an inf or a NaN goes through to the updates, as in Apex.
        tensor_lists: the moments and the updates are written, in their own types.
        per_tensor_decay: weight decay of each parameter, float32 of shape (n,).
        step: how many steps went before this one.
        beta1, beta2, eps: Adam's.
        global_grad_norm: norm of all gradients together, one element.
        max_global_grad_norm: what gradients are scaled down to where their norm is greater.
    """
    grads, params, firsts, seconds, updates = tensor_lists
    clip = (global_grad_norm.reshape(()) / max_global_grad_norm).clamp(min=1.0)
    corrections = 1.0 - beta1 ** (step + 1), 1.0 - beta2 ** (step + 1)
    for grad, param, first, second, update, decay in zip(
        grads, params, firsts, seconds, updates, per_tensor_decay.unbind(), strict=True
    ):
        scaled = grad.float() / clip
        mean = first.float().mul(beta1).add_(scaled, alpha=1.0 - beta1)
        square = second.float().mul(beta2).addcmul_(scaled, scaled, value=1.0 - beta2)
        first.copy_(mean)
        second.copy_(square)
        update.copy_(mean / corrections[0] / ((square / corrections[1]).sqrt_() + eps) + decay * param.float())


@torch.no_grad()
def multi_tensor_lamb_stage2_cuda(
    chunk_size: int,
    flag: Tensor,
    tensor_lists: Lists,
    per_tensor_param_norm: Tensor,
    per_tensor_update_norm: Tensor,
    lr: float,
    weight_decay: float,
    use_nvlamb: bool = False,
) -> None:
    """Step the parameters, for lists [parameters, updates]: `lr` times the norm of each over that of its update.

    The ratio is 1 where a norm is zero, and without `weight_decay`, unless `use_nvlamb`. `chunk_size` and `flag` are
    unused.
    """
    ratios = torch.ones_like(per_tensor_param_norm)
    if use_nvlamb or weight_decay != 0.0:
        ratios = _ratios(per_tensor_param_norm, per_tensor_update_norm)
    for param, update, ratio in zip(*tensor_lists, ratios.unbind(), strict=True):
        param.copy_(param.float() - lr * ratio * update.float())


def trust_ratios(weights: Sequence[Tensor], updates: Sequence[Tensor]) -> list[Tensor]:
    """Norm of each weight over the norm of its update; 1 where either is zero."""
    return list(_ratios(torch.stack(norms(weights)), torch.stack(norms(updates))).unbind())


def _ratios(weight_norms: Tensor, update_norms: Tensor) -> Tensor:
    # Chosen on the device: a test on the host would wait for it.
    return torch.where(
        (weight_norms != 0) & (update_norms != 0), weight_norms / update_norms, torch.ones_like(update_norms)
    )
