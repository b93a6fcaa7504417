"""Training in several processes where CPUs stand in for the GPUs: NCCL's place is taken by Gloo."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed
import torch.nn.parallel


def install() -> None:
    """Let process groups, DistributedDataParallel and synchronised batch norms run without a GPU."""
    distributed: Any = torch.distributed
    if not distributed.is_available():
        return
    _map_process_group(distributed)
    _map_data_parallel()
    # Statistics of each process alone, in both scripts: PyTorch synchronises them on a GPU only.
    holder: Any = torch.nn.SyncBatchNorm
    holder.forward = torch.nn.BatchNorm2d.forward


def _map_process_group(distributed: Any) -> None:
    init, barrier = distributed.init_process_group, distributed.barrier

    @functools.wraps(init)
    def init_gloo(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return init("gloo", *args, **{**kwargs, "device_id": None} if "device_id" in kwargs else kwargs)

    @functools.wraps(barrier)
    def barrier_anywhere(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_ids", None)
        return barrier(*args, **kwargs)

    distributed.init_process_group, distributed.barrier = init_gloo, barrier_anywhere
    distributed.is_nccl_available = lambda: True


def _map_data_parallel() -> None:
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    init = parallel.__init__

    @functools.wraps(init)
    def init_on_cpu(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, **kwargs: Any) -> None:
        init(self, module, None, None, **kwargs)

    parallel.__init__ = init_on_cpu
    parallel._passing_sync_batchnorm_handle = lambda self, module: None  # refuses synchronised batch norms on a CPU
