"""Call a multi-tensor operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor


class MultiTensorApply:
    """Calls operators of `amp_C`, with the size of the chunks that Apex cut tensors into."""

    available = True

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size

    def __call__(
        self, op: Callable[..., Any], noop_flag_buffer: Tensor, tensor_lists: Sequence[Sequence[Tensor]], *args: Any
    ) -> Any:
        """`op(chunk_size, noop_flag_buffer, tensor_lists, *args)`"""
        return op(self.chunk_size, noop_flag_buffer, tensor_lists, *args)
