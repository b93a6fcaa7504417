"""Say of each cast what was cast, as `amp.initialize(verbosity=2)` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from amp_shim.policy.kernels import Kernel, eligible_in, names_a_dtype
from amp_shim.policy.policies import Treatment
from amp_shim.support.casting import LOW_PRECISION

Announce = Callable[[str], object]

_NAMES = {torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float"}


def announcing(
    op: torch._ops.OpOverload, treatment: Treatment, device_type: str, kernel: Kernel, announce: Announce
) -> Kernel:
    """A kernel that calls `announce` with `Float->Half (linear)` for each argument that it is about to cast."""
    name = op._schema.name.removeprefix("aten::")

    def announced(*args: Any, **kwargs: Any) -> Any:
        dtypes = [tensor.dtype for tensor in eligible_in((args, tuple(kwargs.values())), device_type)]
        if treatment is not Treatment.FLOAT_KEEP_DTYPE or not names_a_dtype(op, args, kwargs):
            for dtype, target in _casts(treatment, dtypes, torch.get_autocast_dtype(device_type)):
                announce(f"{_NAMES.get(dtype, dtype)}->{_NAMES.get(target, target)} ({name})")
        return kernel(*args, **kwargs)

    return announced


def _casts(
    treatment: Treatment, dtypes: list[torch.dtype], half: torch.dtype
) -> Iterator[tuple[torch.dtype, torch.dtype]]:
    if treatment is Treatment.HALF:
        target = half
    elif treatment in (Treatment.FLOAT, Treatment.FLOAT_KEEP_DTYPE):
        target = torch.float32
    elif treatment is Treatment.PROMOTE:
        target = torch.float32 if torch.float32 in dtypes else half
    else:
        return
    for dtype in dtypes:
        if dtype is not target and dtype in (torch.float32, *LOW_PRECISION):
            yield dtype, target
