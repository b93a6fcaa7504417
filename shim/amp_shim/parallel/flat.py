"""Collectives on many tensors at once: flattened by type, sent, and copied back. Also Apex's extension `apex_C`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors, which are of one type, as one of one dimension."""
    flat: Tensor = torch._utils._flatten_dense_tensors(tensors)
    return flat


def unflatten(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a flat tensor in the shapes of `tensors`."""
    views: tuple[Tensor, ...] = torch._utils._unflatten_dense_tensors(flat, tensors)
    return views


@torch.no_grad()
def apply_flat_dist_call(
    bucket: Sequence[Tensor], call: Callable[..., Any], extra_args: Sequence[Any] | None = None
) -> None:
    """Run `call(flat, *extra_args)` on tensors of one type, in place; `torch.distributed.all_reduce` averages."""
    flat = flatten(bucket)
    call(flat, *(extra_args or ()))
    if call is dist.all_reduce:
        flat /= dist.get_world_size()
    for tensor, received in zip(bucket, unflatten(flat, bucket), strict=True):
        tensor.copy_(received)


def flat_dist_call(
    tensors: Sequence[Tensor], call: Callable[..., Any], extra_args: Sequence[Any] | None = None
) -> None:
    """`apply_flat_dist_call` for tensors of several types, in the order in which the types first occur."""
    buckets: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        buckets.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for bucket in buckets.values():
        apply_flat_dist_call(bucket, call, extra_args)
