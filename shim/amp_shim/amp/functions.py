"""What a script says of its own functions: how they are cast, and where nothing is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from amp_shim.amp.casts.device import device_type
from amp_shim.amp.casts.registrations import register
from amp_shim.amp.state import _amp_state

F = TypeVar("F", bound=Callable[..., Any])
Cast = Callable[[Tensor], Tensor]


def half_function(fn: F) -> F:
    """Decorator: under O1, `fn` gets its floating arguments in half."""
    return _casting(fn, lambda tensors: torch.get_autocast_dtype(device_type()))


def bfloat16_function(fn: F) -> F:
    """Decorator: under O1 and O4, `fn` gets its floating arguments in bfloat16. ROCm's Apex has it."""
    return _casting(fn, lambda tensors: torch.bfloat16)


def float_function(fn: F) -> F:
    """Decorator: under O1, `fn` gets its floating arguments in float32. Operators inside `fn` are still cast."""
    return _casting(fn, lambda tensors: torch.float32)


def promote_function(fn: F) -> F:
    """Decorator: under O1, `fn` gets its floating arguments in the widest of their types."""
    return _casting(fn, _widest)


def register_half_function(module: Any, name: str) -> None:
    """At the next `amp.initialize` with O1, replace `module.name` by `half_function(module.name)`.

    Raises ValueError if `module` has no such name.
    """
    register(module, name, half_function)


def register_bfloat16_function(module: Any, name: str) -> None:
    """Like `register_half_function`, with `bfloat16_function`."""
    register(module, name, bfloat16_function)


def register_float_function(module: Any, name: str) -> None:
    """Like `register_half_function`, with `float_function`."""
    register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Like `register_half_function`, with `promote_function`."""
    register(module, name, promote_function)


@contextmanager
def disable_casts() -> Iterator[None]:
    """Operators inside run at the types they are given. Nests, survives exceptions, does nothing without O1."""
    if _amp_state.handle is None:
        yield
    else:
        with _amp_state.handle._disable_casts():
            yield


def _casting(fn: F, target: Callable[[list[Tensor]], torch.dtype | None]) -> F:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _amp_state.handle is None or not _amp_state.handle.is_active():
            return fn(*args, **kwargs)
        dtype = target(list(_floating((args, kwargs))))
        return fn(*_to(args, dtype), **_to(kwargs, dtype)) if dtype is not None else fn(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def _widest(tensors: list[Tensor]) -> torch.dtype | None:
    dtypes = [tensor.dtype for tensor in tensors]
    return functools.reduce(torch.promote_types, dtypes) if dtypes else None


def _floating(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.device.type == device_type():
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _floating(item)
    elif isinstance(value, dict):
        yield from _floating(tuple(value.values()))


def _to(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if any(True for _ in _floating(value)) else value
    if isinstance(value, dict):
        return {key: _to(item, dtype) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_to(item, dtype) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
