"""Which operator ran in which dtype, how often, and with what share of the work.

with record() as seen:
    model(x)
print(seen)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from amp_shim.policy.kernels import stood_in_for

_MOVES = frozenset(
    "_to_copy copy_ clone _unsafe_view empty_like zeros_like ones_like full_like "
    "new_empty new_zeros new_ones new_full".split()
)


@dataclass(frozen=True)
class Row:
    """One operator in one dtype: how often it was called, and its floating-point operations altogether.

    flops: of matrix products, convolutions and attention, by `torch.utils.flop_counter`; 0 for other operators.
    """

    operator: str
    dtype: torch.dtype
    calls: int
    flops: int


class Recording:
    """What ran in a `record()` block; grows until the block ends."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[str, torch.dtype]] = Counter()
        self._flops: Counter[tuple[str, torch.dtype]] = Counter()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The operators, those with most work first."""
        found = [Row(*key, calls, self._flops[key]) for key, calls in self._calls.items()]
        return tuple(sorted(found, key=lambda row: (-row.flops, -row.calls, row.operator, str(row.dtype))))

    def share(self, dtype: torch.dtype) -> float:
        """The part of all floating-point operations that ran in a dtype, from 0 to 1; 0 if there were none."""
        total = self._flops.total()
        return sum(flops for (_, found), flops in self._flops.items() if found is dtype) / total if total else 0.0

    def __str__(self) -> str:
        total = self._flops.total() or 1
        lines = [f"{'operator':32}{'dtype':>10}{'calls':>8}{'of FLOPs':>10}"]
        for row in self.rows:
            share = f"{row.flops / total:.1%}" if row.flops else ""
            lines.append(
                f"{row.operator:32}{str(row.dtype).removeprefix('torch.'):>10}{row.calls:8}{share:>10}".rstrip()
            )
        return "\n".join(lines)

    def _add(self, func: Any, dtype: torch.dtype, flops: int) -> None:
        key = (func._schema.name.removeprefix("aten::"), dtype)
        self._calls[key] += 1
        self._flops[key] += flops


@contextmanager
def record() -> Iterator[Recording]:
    """Record the operators that run on this thread, below autocast and autograd, with their real dtypes.

    A dtype is that of the result. Operators are those that PyTorch dispatches to kernels (`addmm` for a linear layer).
    The backward pass, casts, copies and views, and operators without floating results are left out. Where the CPU
    stands in for a GPU, the half type counts that a float32 computation stands for.
    """
    mode: Any = _Recorder  # torch's modes carry no annotations
    recorder = mode()
    recorder.recording = Recording()
    with recorder:
        yield recorder.recording


class _Recorder(TorchDispatchMode):
    recording: Recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._overloadpacket not in flop_registry:
            # Under inference_mode composite operators arrive whole.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = func(*args, **kwargs)
        dtype = _dtype_of(result)
        if dtype is not None and _computes(func) and torch._C._current_graph_task_id() == -1:
            formula = flop_registry.get(func._overloadpacket)
            flops = formula(*args, **kwargs, out_val=result) if formula is not None else 0
            self.recording._add(func, stood_in_for() or dtype, flops)
        return result


def _computes(func: Any) -> bool:
    schema = func._schema
    takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    return takes_tensors and not is_view and func._overloadpacket.__name__ not in _MOVES


def _dtype_of(result: Any) -> torch.dtype | None:
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    return first.dtype if isinstance(first, Tensor) and first.is_floating_point() else None
