"""Autocast kernels in Python: one for each treatment that a policy can ask for.

A kernel casts the arguments and calls the same operator again below the Autocast key, so autograd, functionalisation
and the backend see an ordinary call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from amp_shim.policy.policies import Treatment
from amp_shim.policy.weight_cache import WeightCache
from amp_shim.support.casting import LOW_PRECISION

Kernel = Callable[..., Any]
Cast = Callable[[Tensor], Tensor]


class _StandIn(threading.local):
    dtype: torch.dtype | None = None


_stand_in = _StandIn()

_AUTOCAST_KEYS = {
    "cpu": torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU),
    "cuda": torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA),
}


def kernel_for(op: torch._ops.OpOverload, treatment: Treatment, device_type: str, cache: WeightCache) -> Kernel:
    """The kernel that gives `op` a treatment other than NATURAL on a device type."""
    redispatch = _below_autocast(op, device_type)
    low = _rounded(redispatch) if device_type == "cpu" else redispatch
    if treatment is Treatment.HALF:
        return _half_kernel(low, device_type, cache)
    if treatment is Treatment.FLOAT:
        return _float_kernel(redispatch, device_type)
    if treatment is Treatment.FLOAT_KEEP_DTYPE:
        return _float_keep_dtype_kernel(op, redispatch, device_type)
    if treatment is Treatment.PROMOTE:
        return _promote_kernel(low, redispatch, device_type, cache)
    if treatment is Treatment.BANNED_HALF:
        return _banned_half_kernel(op, redispatch)
    assert treatment is Treatment.BANNED, treatment
    return _banned_kernel(op)


def stood_in_for() -> torch.dtype | None:
    """The half type that a float32 computation on the CPU stands in for, on this thread, right now."""
    return _stand_in.dtype


def rounding_kernel(op: torch._ops.OpOverload, device_type: str) -> Kernel:
    """Natural treatment of an operator without a half kernel: computed in float32, rounded to its input's type."""
    redispatch = _below_autocast(op, device_type)
    rounded = _rounded(redispatch)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        low = args[0].dtype in LOW_PRECISION
        return rounded(*args, **kwargs) if low else redispatch(*args, **kwargs)

    return kernel


def _below_autocast(op: torch._ops.OpOverload, device_type: str) -> Kernel:
    keys = _AUTOCAST_KEYS[device_type]

    def redispatch(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*args, **kwargs)

    return redispatch


def _half_kernel(low: Kernel, device_type: str, cache: WeightCache) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(device_type)

        def cast(tensor: Tensor) -> Tensor:
            return cache.cast(tensor, dtype) if tensor.dtype is not dtype else tensor

        return low(*_cast_all(args, cast, device_type), **_cast_all(kwargs, cast, device_type))

    return kernel


def _float_kernel(redispatch: Kernel, device_type: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return redispatch(*_cast_all(args, Tensor.float, device_type), **_cast_all(kwargs, Tensor.float, device_type))

    return kernel


def _float_keep_dtype_kernel(op: torch._ops.OpOverload, redispatch: Kernel, device_type: str) -> Kernel:
    position = _dtype_position(op)
    if position is None:
        return _float_kernel(redispatch, device_type)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not names_a_dtype(op, args, kwargs) and _is_eligible(args[0], device_type):
            args, kwargs = args[:position], {**kwargs, "dtype": torch.float32}
        return redispatch(*args, **kwargs)

    return kernel


def _promote_kernel(low: Kernel, redispatch: Kernel, device_type: str, cache: WeightCache) -> Kernel:
    half = _half_kernel(low, device_type, cache)
    float_ = _float_kernel(redispatch, device_type)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtypes = {tensor.dtype for tensor in eligible_in((args, tuple(kwargs.values())), device_type)}
        dtype = torch.get_autocast_dtype(device_type)
        stranger = dtypes - {dtype, torch.float32}
        if stranger:
            raise RuntimeError(f"autocast to {dtype} cannot promote {stranger.pop()}; cast the argument first")
        return float_(*args, **kwargs) if torch.float32 in dtypes else half(*args, **kwargs)

    return kernel


def _banned_kernel(op: torch._ops.OpOverload) -> Kernel:
    message = _unsafe(op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    return kernel


def _banned_half_kernel(op: torch._ops.OpOverload, redispatch: Kernel) -> Kernel:
    message = _unsafe(op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(arg, Tensor) and arg.dtype in LOW_PRECISION for arg in (*args, *kwargs.values())):
            raise NotImplementedError(message)
        return redispatch(*args, **kwargs)

    return kernel


def _unsafe(op: torch._ops.OpOverload) -> str:
    name = op._schema.name.removeprefix("aten::")
    if name != "binary_cross_entropy":
        return f"the policy in force bans {name}; call it under autocast(enabled=False) on float32 arguments"
    return (
        f"{name} is unsafe to autocast: its gradient overflows in half precision; "
        f"use {name}_with_logits, or call it under autocast(enabled=False) on float32 arguments"
    )


def _rounded(redispatch: Kernel) -> Kernel:
    """A half computation as tensor cores do it: half arguments, float32 inside, result rounded to half.

    Autograd rounds the gradients of the arguments to half on their way back.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        low: set[torch.dtype] = set()

        def widen(tensor: Tensor) -> Tensor:
            if tensor.dtype not in LOW_PRECISION:
                return tensor
            low.add(tensor.dtype)
            return tensor.float()

        args, kwargs = _cast_all(args, widen, "cpu"), _cast_all(kwargs, widen, "cpu")
        if len(low) != 1:
            return redispatch(*args, **kwargs)
        dtype = _stand_in.dtype = low.pop()
        try:
            return _round(redispatch(*args, **kwargs), dtype)
        finally:
            _stand_in.dtype = None

    return call


def _round(result: Any, dtype: torch.dtype) -> Any:
    if isinstance(result, (tuple, list)):
        return tuple(_round(item, dtype) for item in result)
    if isinstance(result, Tensor) and result.dtype is torch.float32:
        return result.to(dtype)
    return result


def _is_eligible(value: Any, device_type: str) -> bool:
    return (
        isinstance(value, Tensor)
        and value.device.type == device_type
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def names_a_dtype(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the caller chose the type of the result, by an argument `dtype`."""
    position = _dtype_position(op)
    given = args[position] if position is not None and len(args) > position else kwargs.get("dtype")
    return given is not None


@lru_cache(maxsize=1024)
def _dtype_position(op: torch._ops.OpOverload) -> int | None:
    names = [argument.name for argument in op._schema.arguments]
    return names.index("dtype") if "dtype" in names else None


def eligible_in(value: Any, device_type: str) -> list[Tensor]:
    """The tensors in a nest of tuples and lists that autocast may touch."""
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in eligible_in(item, device_type)]
    return [value] if _is_eligible(value, device_type) else []


def _cast_all(value: Any, cast: Cast, device_type: str) -> Any:
    """`value` with `cast` applied to each tensor in it that autocast may touch."""
    if isinstance(value, Tensor):
        return cast(value) if _is_eligible(value, device_type) else value
    if isinstance(value, dict):
        return {key: _cast_all(item, cast, device_type) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_cast_all(item, cast, device_type) for item in value)
    return value
