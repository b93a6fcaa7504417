"""What `torch.cuda` answers where a CPU stands in for the GPU: data, and the few classes that scripts build."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from types import SimpleNamespace, TracebackType
from typing import Any

import torch

NAME = "CPU stand-in"

# Functions of `torch.cuda` that answer a constant.
CONSTANTS: dict[str, Any] = {
    "is_available": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": NAME,
    "get_device_capability": (8, 0),
    "is_bf16_supported": True,
    "is_current_stream_capturing": False,
    "memory_allocated": 0,
    "max_memory_allocated": 0,
    "memory_reserved": 0,
    "max_memory_reserved": 0,
    "memory_cached": 0,
    "max_memory_cached": 0,
    "memory_summary": "",
}

# Functions of `torch.cuda` that do nothing. Seeds are among them: `torch.manual_seed` has seeded the only generator.
NO_OPS = (
    "_lazy_init",
    "empty_cache",
    "init",
    "ipc_collect",
    "manual_seed",
    "manual_seed_all",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "synchronize",
)

# Functions of `torch` that make a tensor on the device named by `device=`.
FACTORIES = (
    "arange",
    "as_tensor",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "sparse_coo_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
)

# Methods of a tensor that take a device.
TENSOR_METHODS = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "to")

LEGACY_TYPES = (
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
)

ACCELERATOR_CONSTANTS: dict[str, Any] = {"is_available": True, "device_count": 1, "current_device_index": 0}
ACCELERATOR_NO_OPS = ("synchronize", "set_device_index", "set_device_idx", "empty_cache")


class Event:
    """A point in time: the CPU has no queue to mark."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`."""
        return (end._time - self._time) * 1e3

    def wait(self, stream: Any = None) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


class Stream:
    """A queue that is always empty: work on the CPU is done when its call returns."""

    device = torch.device("cuda", 0)
    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def device_properties(*args: Any) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` answers: the machine's own memory and cores."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SimpleNamespace(name=NAME, major=8, minor=0, total_memory=memory, multi_processor_count=os.cpu_count() or 1)


# Names of `torch.cuda` that are replaced by an object of another kind.
OBJECTS: dict[str, Any] = {
    "Event": Event,
    "Stream": Stream,
    "stream": lambda stream: nullcontext(),
    "device": lambda device: nullcontext(),
    "device_of": lambda tensor: nullcontext(),
    "current_stream": Stream,
    "default_stream": Stream,
    "get_device_properties": device_properties,
}
