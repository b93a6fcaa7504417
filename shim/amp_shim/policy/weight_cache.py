"""Low-precision copies of weights, kept for one autocast region as PyTorch itself keeps them.

PyTorch's own cache is not reachable from Python, so kernels written in Python need this one. It lives and dies with the
original: `torch.autocast` calls `torch.clear_autocast_cache()` when a thread leaves its outermost region, and the cache
empties then. A region that stays open across `optimizer.step()` therefore sees stale weights, natively too.
"""

from __future__ import annotations

import weakref
from threading import RLock

import torch
from torch import Tensor


class WeightCache:
    """Casts of float32 leaves that require grad, until `torch.clear_autocast_cache()` is called.

    `attach()` hooks that function, `detach()` puts the original back.
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}
        self._lock = RLock()

    def cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """`tensor.to(dtype)`, from the cache where autocast would take it from there."""
        if not _is_weight(tensor) or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        with self._lock:
            entry = self._entries.get(id(tensor))
            if entry is not None and entry[0]() is tensor and _reusable(entry[1], dtype):
                return entry[1]
            copy = tensor.to(dtype)
            self._entries[id(tensor)] = (weakref.ref(tensor), copy)
            return copy

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def attach(self) -> None:
        """Empty this cache whenever PyTorch empties its own."""
        _attached.append(self)
        if len(_attached) == 1:
            torch.clear_autocast_cache = _clear_every_cache

    def detach(self) -> None:
        """Undo `attach()` and forget every copy."""
        if self in _attached:
            _attached.remove(self)
        if not _attached:
            torch.clear_autocast_cache = _native_clear
        self.clear()


_attached: list[WeightCache] = []
_native_clear = torch.clear_autocast_cache


def _clear_every_cache() -> None:
    for cache in _attached:
        cache.clear()
    _native_clear()


def _is_weight(tensor: Tensor) -> bool:
    return tensor.requires_grad and tensor.is_leaf and tensor.dtype is torch.float32 and not tensor._is_view()


def _reusable(copy: Tensor, dtype: torch.dtype) -> bool:
    # A copy made under no_grad has no way back to the weight: a grad-mode use needs a fresh one.
    return copy.dtype is dtype and (copy.requires_grad or not torch.is_grad_enabled())
