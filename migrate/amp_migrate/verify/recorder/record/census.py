"""The census: which differentiable operation gave which dtype, over the first optimizer steps.

Counted at the level of the calls a script makes, and by the dtype of their results: an autocast region shows there in
the same way on a GPU and on the CPU that stands in for one, whose kernels compute in float32 and round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, resolve_name

from ..progress import Progress

_ATTEMPTS = 3


_stack: Any = _get_current_function_mode_stack


class _Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not torch.is_grad_enabled():
            return result  # nothing to count; and to ask a view that was made here for its `grad_fn` may raise
        first = result[0] if isinstance(result, (list, tuple)) and result else result
        if isinstance(first, torch.Tensor) and first.requires_grad and first.grad_fn is not None:
            self.counts[_name(func), str(first.dtype).removeprefix("torch.")] += 1
        return result


_mode: Any = _Counting  # torch's modes carry no annotations


class FirstSteps:
    """A mode that is on from now until the third attempt at an optimizer step is over; then `write` is called."""

    def __init__(self, progress: Progress, mode: Any, write: Callable[[], None]) -> None:
        self._progress = progress
        self._mode = mode
        self._write = write
        self._open = True
        self._mode.__enter__()
        progress.after_attempt.append(self._close_if_done)

    def _close_if_done(self) -> None:
        if self._progress.attempts >= _ATTEMPTS:
            self.close()

    def close(self) -> None:
        """Stop and write. While the script has a mode of its own above ours, go on."""
        if self._open and _stack()[-1:] == [self._mode]:
            self._open = False
            self._mode.__exit__(None, None, None)
            self._write()


def count(progress: Progress) -> FirstSteps:
    """Count from now on, and write a `census` event."""
    mode = _mode()

    def write() -> None:
        table = [[name, dtype, count] for (name, dtype), count in sorted(mode.counts.items())]
        progress.writer.put("census", table=table)

    return FirstSteps(progress, mode, write)


def _name(func: Any) -> str:
    """The operation's own name: `linear` for `torch.nn.functional.linear`, `matmul` for `torch.linalg.matmul`."""
    own: str = getattr(func, "__name__", "") or str(func)
    found: str = (resolve_name(func) or own).rsplit(".", 1)[-1]
    return (found if own.endswith(found) else own).strip("_")  # `torch.mm` is found as `torch.spmm`, its other name
