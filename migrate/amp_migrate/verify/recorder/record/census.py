"""The census: which differentiable operation gave which dtype, and how much work it was.

Counted at the level of the calls a script makes, and by the dtype of their results: an autocast region shows there in
the same way on a GPU and on the CPU that stands in for one, whose kernels compute in float32 and round. The first
optimizer steps are counted, and further ones now and then until the script ends.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..products import MATRIX_OPERATIONS
from ..progress import Progress, is_sampled
from .ranges import Ranges

FIRST = 3  # attempts at optimizer steps that are counted as one

_stack: Any = _get_current_function_mode_stack


class _Work(TorchDispatchMode):
    """Counts the floating-point operations of matrix products and convolutions."""

    flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=result)
        return result


_work: Any = _Work  # torch's modes carry no annotations


class _Counting(TorchFunctionMode):
    def __init__(self, progress: Progress, around: _Around, ranges: Ranges | None) -> None:
        super().__init__()
        self.on = True
        self._progress = progress
        self._around = around
        self._ranges = ranges
        self.kept = 0  # floating-point operations where a region is switched off within another
        self.counts: Counter[tuple[str, str]] = Counter()
        self.flops: Counter[tuple[str, str]] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _name(func) if self.on else ""
        if not self.on or not torch.is_grad_enabled():
            # Nothing to count; and to ask a view that was made here for `grad_fn` may raise.
            result = func(*args, **kwargs)
            if self.on and self._ranges is not None:
                self._ranges.see(name, _first(result), learned=False)
            return result
        work = _work() if name in MATRIX_OPERATIONS and torch._C._get_tracing_state() is None else None
        if work is None:
            result = func(*args, **kwargs)
        else:
            with work:
                result = func(*args, **kwargs)
        first = _first(result)
        learned = isinstance(first, torch.Tensor) and first.requires_grad and first.grad_fn is not None
        if learned:
            kind = name, str(first.dtype).removeprefix("torch.")
            self.counts[kind] += 1
            if work is not None:
                self.flops[kind] += work.flops
                self.kept += work.flops if self._is_switched_off() else 0
        if self._ranges is not None:
            self._ranges.see(name, first, learned=learned)
        return result

    def _is_switched_off(self) -> bool:
        """Whether autocast is off in a region within one in which it is on, as what needs float32 is written."""
        return any(self._around.was_on) and not self._progress.autocast_on()


class _Around(threading.local):
    """Whether autocast was on where each of the regions begins that are open in a thread."""

    def __init__(self) -> None:
        self.was_on: list[bool] = []


def _follow_regions(progress: Progress) -> _Around:
    around = _Around()
    region: Any = torch.autocast
    enter, leave = region.__enter__, region.__exit__

    @functools.wraps(enter)
    def entered(this: Any) -> Any:
        around.was_on.append(progress.autocast_on())
        return enter(this)

    @functools.wraps(leave)
    def left(this: Any, *error: Any) -> Any:
        del around.was_on[-1:]  # none where a region ends in another thread than it began in
        return leave(this, *error)

    region.__enter__, region.__exit__ = entered, left
    return around


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, (list, tuple)) and result else result


_counting: Any = _Counting


class _Beside(TorchFunctionMode):
    """In another thread of the script, whose modes are its own: counts where the census does."""

    def __init__(self, census: Census) -> None:
        super().__init__()
        self._census = census

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mode = self._census.mode
        if mode is None:
            return func(*args, **(kwargs or {}))
        return mode.__torch_function__(func, types, args, kwargs)


_beside: Any = _Beside


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
        if self._progress.attempts >= FIRST:
            self.close()

    def close(self) -> None:
        """Stop and write. While the script has a mode of its own above ours, go on."""
        if self._open and _stack()[-1:] == [self._mode]:
            self._open = False
            self._mode.__exit__(None, None, None)
            self._write()


class Census:
    """Counts from now on, until the first attempts are over, and again whenever an attempt is sampled.

    Writes a `census` event for each attempt that was counted. While the script has a mode of its own above ours,
    counting goes on, into the event of the attempt in which the script's mode ends. A script that trains in a thread is
    counted there: the mode of the first thread stays, and is on and off.

    Args:
        ranges: what collects the ranges of the results that are counted, if they are wanted.
    """

    def __init__(self, progress: Progress, ranges: Ranges | None = None) -> None:
        self._progress = progress
        self._ranges = ranges
        self._thread = threading.get_ident()
        self.mode: Any = None
        self._since = 0
        self._around = _follow_regions(progress)
        self._open()
        self._count_in_threads()
        progress.after_attempt.append(self._turn)

    def _count_in_threads(self) -> None:
        thread: Any = threading.Thread
        bootstrap = thread._bootstrap_inner

        @functools.wraps(bootstrap)
        def counted(this: Any) -> None:
            with _beside(self):
                bootstrap(this)

        thread._bootstrap_inner = counted

    def _open(self) -> None:
        if self.mode is None:
            self.mode = _counting(self._progress, self._around, self._ranges)
            self.mode.__enter__()
        self.mode.on = True
        self._since = self._progress.attempts
        if self._ranges is not None:
            self._ranges.begin()

    def _turn(self) -> None:
        if self.mode is not None and self.mode.on:
            self.close()
        if (self.mode is None or not self.mode.on) and is_sampled(self._progress.attempts):
            self._open()

    def close(self) -> None:
        """Stop and write what was counted."""
        mode = self.mode
        elsewhere = threading.get_ident() != self._thread
        if mode is None or not mode.on or not (elsewhere or _stack()[-1:] == [mode]):
            return
        if not self._since or self._progress.attempts > self._since:  # else it is what a script does behind its steps
            table = [[*kind, count, mode.flops[kind]] for kind, count in sorted(mode.counts.items())]
            self._progress.writer.put("census", attempt=self._progress.attempts - 1, table=table, kept=mode.kept)
        if elsewhere:
            mode.on = False
            mode.counts.clear()
            mode.flops.clear()
            mode.kept = 0
        else:
            mode.__exit__(None, None, None)
            self.mode = None


@functools.lru_cache(maxsize=1024)
def _name(func: Any) -> str:
    """The operation's own name: `linear` for `torch.nn.functional.linear`, `matmul` for `torch.linalg.matmul`."""
    own: str = getattr(func, "__name__", "") or str(func)
    found: str = (resolve_name(func) or own).rsplit(".", 1)[-1]
    return (found if own.endswith(found) else own).strip("_")  # `torch.mm` is found as `torch.spmm`, its other name
