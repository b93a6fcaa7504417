"""The operators of Apex's extension `amp_C` that training scripts call, on torch's multi-tensor functions.

All compute in float32, never wait for the device, and set `flag`, a tensor of one integer, to 1 where they meet an inf
or a NaN. `chunk_size` is how Apex cut its work; results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from amp_shim.multi_tensor_apply.adagrad import multi_tensor_adagrad
from amp_shim.multi_tensor_apply.adam import multi_tensor_adam
from amp_shim.multi_tensor_apply.lamb import multi_tensor_lamb
from amp_shim.multi_tensor_apply.lamb_stages import multi_tensor_lamb_stage1_cuda, multi_tensor_lamb_stage2_cuda
from amp_shim.multi_tensor_apply.lists import Lists, floats, norms
from amp_shim.multi_tensor_apply.novograd import multi_tensor_novograd
from amp_shim.multi_tensor_apply.sgd import multi_tensor_sgd

__all__ = [
    "multi_tensor_adagrad",
    "multi_tensor_adam",
    "multi_tensor_axpby",
    "multi_tensor_l2norm",
    "multi_tensor_l2norm_mp",
    "multi_tensor_l2norm_scale",
    "multi_tensor_lamb",
    "multi_tensor_lamb_stage1_cuda",
    "multi_tensor_lamb_stage2_cuda",
    "multi_tensor_novograd",
    "multi_tensor_scale",
    "multi_tensor_sgd",
    "multi_tensor_unscale_l2norm",
    "update_scale_hysteresis",
]


@torch.no_grad()
def multi_tensor_scale(chunk_size: int, flag: Tensor, tensor_lists: Lists, scale: float) -> None:
    """`out = in * scale` for lists [in, out]; either may be half."""
    inputs, outputs = tensor_lists
    if inputs:
        _flag_non_finite(flag, inputs)
        torch._foreach_copy_(list(outputs), torch._foreach_mul(floats(inputs), scale))


@torch.no_grad()
def multi_tensor_axpby(
    chunk_size: int, flag: Tensor, tensor_lists: Lists, a: float, b: float, arg_to_check: int = -1
) -> None:
    """`out = a * x + b * y` for lists [x, y, out]; checks x for `arg_to_check` 0, y for 1, both for -1."""
    xs, ys, outputs = tensor_lists
    if not xs:
        return
    if arg_to_check != 1:
        _flag_non_finite(flag, xs)
    if arg_to_check != 0:
        _flag_non_finite(flag, ys)
    sums = torch._foreach_mul(floats(xs), a)
    torch._foreach_add_(sums, floats(ys), alpha=b)
    torch._foreach_copy_(list(outputs), sums)


@torch.no_grad()
def multi_tensor_l2norm(
    chunk_size: int, flag: Tensor, tensor_lists: Lists, per_tensor: bool = False
) -> tuple[Tensor, Tensor]:
    """The norm of all tensors together, of shape (1,), and with `per_tensor` of each one, of shape (n,)."""
    return _norms(flag, floats(tensor_lists[0]), per_tensor)


# For tensors of several types, which the other takes too.
multi_tensor_l2norm_mp = multi_tensor_l2norm


@torch.no_grad()
def multi_tensor_unscale_l2norm(
    chunk_size: int, flag: Tensor, tensor_lists: Lists, inv_scale: Tensor, per_tensor: bool = False
) -> tuple[Tensor, Tensor]:
    """Like `multi_tensor_l2norm`, of the tensors times `inv_scale`, a tensor of one element."""
    return _norms(flag, list(torch._foreach_mul(floats(tensor_lists[0]), inv_scale.reshape(()))), per_tensor)


@torch.no_grad()
def multi_tensor_l2norm_scale(
    chunk_size: int, flag: Tensor, tensor_lists: Lists, scale: float, per_tensor: bool = False
) -> tuple[Tensor, Tensor]:
    """Like `multi_tensor_l2norm`, of lists [in, out], writing `out = in * scale` too."""
    multi_tensor_scale(chunk_size, flag, tensor_lists, scale)
    return _norms(flag, floats(tensor_lists[1]), per_tensor)


@torch.no_grad()
def update_scale_hysteresis(
    current_scale: Tensor,
    growth_tracker: Tensor,
    hysteresis_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
    hysteresis: int,
) -> Tensor:
    """Move a loss scale in place after a step, and return it; all tensors have one element.

    The scale backs off at the `hysteresis`th overflow since the last step without one, and at each that follows; it
    grows after `growth_interval` steps in a row without one, if it stays finite.

    Args:
        current_scale: the scale, float32.
        growth_tracker: steps in a row without an overflow, int32.
        hysteresis_tracker: overflows that are left before the scale backs off, int32.
        found_inf: above 0 where the step met an inf or a NaN, float32.
        growth_factor: by which the scale grows.
        backoff_factor: by which it backs off.
        growth_interval: steps without an overflow until the scale grows.
        hysteresis: what `hysteresis_tracker` is set to by such a step.
    """
    overflow = found_inf > 0
    hysteresis_tracker.copy_(torch.where(overflow, hysteresis_tracker - 1, hysteresis))
    successes = growth_tracker + 1
    grows = ~overflow & (successes == growth_interval)
    grown = current_scale * growth_factor
    backs_off = overflow & (hysteresis_tracker <= 0)
    scale = torch.where(grows & torch.isfinite(grown), grown, current_scale)
    current_scale.copy_(torch.where(backs_off, current_scale * backoff_factor, scale))
    growth_tracker.copy_(torch.where(overflow | grows, 0, successes))
    return current_scale


def _norms(flag: Tensor, tensors: list[Tensor], per_tensor: bool) -> tuple[Tensor, Tensor]:
    if not tensors:
        return flag.new_zeros(1, dtype=torch.float32), flag.new_zeros(0, dtype=torch.float32)
    each = torch.stack(norms(tensors))
    _set_flag(flag, each)
    return torch.linalg.vector_norm(each).reshape(1), each if per_tensor else each.new_zeros(0)


def _flag_non_finite(flag: Tensor, tensors: Sequence[Tensor]) -> None:
    filled = [tensor for tensor in tensors if tensor.numel()]
    if filled:
        # The largest magnitude is an inf or a NaN if any entry is.
        _set_flag(flag, torch.stack([norm.float() for norm in torch._foreach_norm(filled, inf)]))


def _set_flag(flag: Tensor, values: Tensor) -> None:
    flag.logical_or_(~values.isfinite().all())
