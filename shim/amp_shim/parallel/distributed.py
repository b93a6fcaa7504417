"""Data-parallel training with Apex's arguments, on torch's own DistributedDataParallel."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel as NativeDDP

from amp_shim.parallel.flat import apply_flat_dist_call, flat_dist_call, flatten, unflatten

__all__ = [
    "DistributedDataParallel",
    "Reducer",
    "apply_flat_dist_call",
    "flat_dist_call",
    "flatten",
    "unflatten",
]

_MIB = 2**20
_FLOAT_BYTES = 4


class DistributedDataParallel(NativeDDP):
    """Averages gradients over the processes of the default group; buffers are never synchronised, as in Apex.

    Args:
        module: the model, on this process's device.
        message_size: elements per bucket.
        delay_allreduce: reduce once, behind the backward pass, in Apex; here when torch does, which gives the same.
        retain_allreduce_buffers: let gradients be views of the buckets.
        allreduce_always_fp32: reduce half gradients in float32.
        gradient_average: divide by the number of processes.
        gradient_predivide_factor: divide by this before the reduction, and multiply by it after an average.
        allreduce_trigger_params, num_allreduce_streams, allreduce_communicators, gradient_average_split_factor, prof:
            how Apex scheduled its kernels; torch schedules its own, and results do not depend on it.

    Raises ValueError for `shared_param`, and for a schedule given together with `delay_allreduce`, as Apex does.
    """

    def __init__(
        self,
        module: nn.Module,
        message_size: int = 10_000_000,
        delay_allreduce: bool = False,
        shared_param: object = None,
        allreduce_trigger_params: Sequence[Parameter] | None = None,
        retain_allreduce_buffers: bool = False,
        allreduce_always_fp32: bool = False,
        num_allreduce_streams: int = 1,
        allreduce_communicators: object = None,
        gradient_average: bool = True,
        gradient_predivide_factor: float = 1.0,
        gradient_average_split_factor: float | None = None,
        prof: bool = False,
    ) -> None:
        if shared_param is not None:
            raise ValueError("shared_param is gone; use delay_allreduce=True for a model with shared parameters")
        if delay_allreduce and (num_allreduce_streams > 1 or allreduce_trigger_params is not None):
            raise ValueError("num_allreduce_streams and allreduce_trigger_params need delay_allreduce=False")
        with warnings.catch_warnings():
            # The option's successor synchronises buffers at construction, which Apex does not.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            super().__init__(
                module,
                bucket_cap_mb=max(message_size * _FLOAT_BYTES / _MIB, 1),
                broadcast_buffers=False,
                find_unused_parameters=True,  # Apex made its buckets of those that had gradients
                gradient_as_bucket_view=retain_allreduce_buffers,
            )
        if allreduce_always_fp32 or not gradient_average or gradient_predivide_factor != 1.0:
            reduction = _Reduction(allreduce_always_fp32, gradient_average, gradient_predivide_factor)
            # A lambda, because torch compares annotations of the hook with its own classes.
            self.register_comm_hook(None, lambda state, bucket: reduction.start(bucket))

    def disable_allreduce(self) -> None:
        """Keep gradients local from the next backward pass on."""
        self.require_backward_grad_sync = False

    def enable_allreduce(self) -> None:
        """Reduce gradients again."""
        self.require_backward_grad_sync = True


class Reducer:
    """Averages tensors over the processes when told to.

    Args:
        module_or_grads_list: a module, whose parameters are broadcast from rank 0 now and whose gradients `reduce()`
            averages; or the tensors to average.
    """

    def __init__(self, module_or_grads_list: nn.Module | Iterable[Tensor]) -> None:
        if isinstance(module_or_grads_list, nn.Module):
            self.module: nn.Module | None = module_or_grads_list
            for param in self.module.parameters():
                dist.broadcast(param.detach(), 0)
        else:
            self.module = None
            self.grads = list(module_or_grads_list)

    def reduce(self) -> None:
        """Average in place."""
        if self.module is not None:
            self.grads = [param.grad for param in self.module.parameters() if param.grad is not None]
        for grad in self.grads:
            dist.all_reduce(grad)
            grad.div_(dist.get_world_size())


class _Reduction:
    """A reduction of one bucket of gradients that plain averaging does not cover."""

    def __init__(self, in_float: bool, average: bool, predivide: float) -> None:
        self._in_float = in_float
        self._before = 1.0 / predivide
        self._after = predivide / dist.get_world_size() if average else 1.0

    def start(self, bucket: Any) -> torch.futures.Future[Tensor]:
        grads: Tensor = bucket.buffer()
        sent = (grads.float() if self._in_float else grads).mul_(self._before)
        work = dist.all_reduce(sent, async_op=True)
        assert work is not None

        def finish(future: torch.futures.Future[list[Tensor]]) -> Tensor:
            return grads.copy_(future.value()[0].mul_(self._after))

        return work.get_future().then(finish)
