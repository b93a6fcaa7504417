"""Batch norm over the batches of all processes, with Apex's arguments."""

from __future__ import annotations

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SyncBatchNorm(nn.SyncBatchNorm):
    """`torch.nn.SyncBatchNorm` that can take channels last, add a residual and apply a ReLU.

    Args:
        channel_last: the last dimension of the input is the channel (a tensor of shape NHWC, not a memory format).
        fuse_relu: apply a ReLU to the result.
        num_features, eps, momentum, affine, track_running_stats, process_group: as in torch.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: dist.ProcessGroup | None = None,
        channel_last: bool = False,
        fuse_relu: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, process_group)
        self.channel_last = channel_last
        self.fuse_relu = fuse_relu

    def forward(self, input: Tensor, z: Tensor | None = None) -> Tensor:
        """Normalise `input`, add the residual `z`, apply the ReLU where asked."""
        out = super().forward(input.movedim(-1, 1) if self.channel_last else input)
        out = out.movedim(1, -1) if self.channel_last else out
        out = out if z is None else out + z
        return F.relu(out) if self.fuse_relu else out


def convert_syncbn_model(
    module: nn.Module, process_group: dist.ProcessGroup | None = None, channel_last: bool = False
) -> nn.Module:
    """`module` with every batch norm replaced by a synchronised one that has its weights, statistics and mode."""
    converted = module
    if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
        converted = _converted(module, process_group, channel_last)
    for name, child in module.named_children():
        converted.add_module(name, convert_syncbn_model(child, process_group, channel_last))
    return converted


def create_syncbn_process_group(group_size: int) -> dist.ProcessGroup | None:
    """This process's group among contiguous groups of `group_size` ranks; None, meaning all, for 0.

    Raises ValueError if the number of processes is no multiple of `group_size`.
    """
    if group_size == 0:
        return None
    world = dist.get_world_size()
    if world % group_size:
        raise ValueError(f"{world} processes cannot be split into groups of {group_size}")
    group, _ = dist.new_subgroups(group_size)
    return group


def _converted(module: _BatchNorm, process_group: dist.ProcessGroup | None, channel_last: bool) -> SyncBatchNorm:
    sync = SyncBatchNorm(
        module.num_features,
        module.eps,
        module.momentum,
        module.affine,
        module.track_running_stats,
        process_group,
        channel_last,
    )
    sync.weight, sync.bias = module.weight, module.bias
    sync.running_mean = module.running_mean
    sync.running_var = module.running_var
    sync.num_batches_tracked = module.num_batches_tracked
    sync.training = module.training
    return sync
