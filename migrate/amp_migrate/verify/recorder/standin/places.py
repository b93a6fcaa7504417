"""Where every tensor would be: operations that mix the CPU's with the GPU's, which CUDA refuses and a CPU computes.

A tensor is on the GPU if the script put it there, or computed it from one that is; on the CPU if it comes from a data
loader, from Python or NumPy, or from `.cpu()`. Of all others, and of what `x.device` was asked for, nothing is known,
and nothing is said. Watched over the first optimizer steps, from the script's first line; and again, ever more rarely,
for a step, and from where the script begins to evaluate, of what is loaded and moved from there on.
"""

from __future__ import annotations

import functools
import linecache
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device
import torch.utils.data.dataloader
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, resolve_name
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from ..process.place import UsersCode
from ..progress import Progress
from . import cuda_table, devices

_MOST = 20
_FIRST = 3  # attempts at optimizer steps that are watched; of all others those whose numbers double
_EVALUATIONS = 2  # that are watched
_RECORDER = __name__.rpartition(".standin")[0]
_GPU, _CPU = "cuda", "cpu"
_FACTORIES = frozenset(name for name in cuda_table.FACTORIES if not name.endswith("_like"))
_FROM_OUTSIDE = frozenset({"from_numpy", "tensor", "as_tensor", "frombuffer", "load"})
# What CUDA does with tensors of both sides: it copies, indexes, and looks at no values.
_BETWEEN = frozenset(
    """__getitem__ __setitem__ copy_ to cpu cuda type type_as set_ index_put_ index_put __get__ __set__ save backward
    register_hook is_pinned pin_memory share_memory_ requires_grad_ as_tensor""".split()
)


class _Watching(TorchFunctionMode):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell
        self._places: Any = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        moved = self._moved(name, args, kwargs)
        result = func(*args, **kwargs)
        if moved is not None:
            self._put(result, moved)
            return result
        if name == "__set__":
            if len(args) == 2 and len(tensors) == 2:
                self._put(args[0], self._places.get(args[1]))
            return result
        places = {self._places.get(tensor) for tensor in tensors if tensor.dim()}
        if {_GPU, _CPU} <= places and name not in _BETWEEN:
            self._tell(name)
        self._put(result, _GPU if _GPU in places else _CPU if places == {_CPU} else None)
        return result

    def _moved(self, name: str, args: Any, kwargs: Any) -> str | None:
        """Where a call puts its result because it says so; empty where it says it in a way that tells nothing.

        What is put on the GPU is known from `devices`, which has replaced the GPU by the CPU when the call comes here.
        """
        if name == "cpu":
            return _CPU
        asked = kwargs.get("device")
        if name == "to":
            asked = asked if asked is not None else next((each for each in args[1:] if _names_device(each)), None)
            return None if asked is None else _place(asked)
        if name in _FACTORIES or name in _FROM_OUTSIDE:
            if torch.utils._device.CURRENT_DEVICE is not None:
                return ""
            return _CPU if asked is None else _place(asked)
        return _place(asked) if asked is not None else None

    def _put(self, value: Any, place: str | None) -> None:
        for leaf in tree_leaves(value):
            if isinstance(leaf, Tensor):
                if place:
                    self._places[leaf] = place
                elif leaf in self._places:
                    del self._places[leaf]

    def forget(self) -> None:
        """Nothing is known any more: what was moved while nobody watched may be elsewhere."""
        self._places = WeakTensorKeyDictionary()

    def put_on_gpu(self, value: Any) -> Any:
        """The script has put a tensor on the GPU: from now on it is another one than that on the CPU."""
        if isinstance(value, Tensor):
            if self._places.get(value) != _GPU and not value.requires_grad:
                value = value.view_as(value)
            self._places[value] = _GPU
        return value

    def loaded(self, batch: Any) -> None:
        """A data loader gave a batch."""
        for leaf in tree_leaves(batch):
            if isinstance(leaf, Tensor) and leaf not in self._places:
                self._places[leaf] = _CPU


_watching: Any = _Watching  # torch's modes carry no annotations


class Watch:
    """Watches from now on; behind the first attempts at optimizer steps only now and then."""

    def __init__(self, progress: Progress, mode: Any) -> None:
        self._progress = progress
        self._mode = mode
        self._thread = threading.get_ident()
        self._evaluations = 0
        self._next = 2 * _FIRST
        self._on = False
        self._open()
        self._follow()
        progress.after_attempt.append(self._turn)

    def _follow(self) -> None:
        iterator: Any = torch.utils.data.dataloader._BaseDataLoaderIter
        module: Any = torch.nn.Module
        following, evaluate = iterator.__next__, module.eval

        @functools.wraps(following)
        def followed(this: Any) -> Any:
            batch = following(this)
            if self._on:
                self._mode.loaded(batch)
            return batch

        @functools.wraps(evaluate)
        def evaluated(this: Any) -> Any:
            self._evaluate()
            return evaluate(this)

        iterator.__next__, module.eval = followed, evaluated

    def _open(self) -> None:
        if not self._on:
            self._on = True
            self._mode.forget()
            self._mode.__enter__()
            devices.watchers.append(self._mode.put_on_gpu)

    def _turn(self) -> None:
        attempts = self._progress.attempts
        if attempts < _FIRST:
            return
        self.close()
        if attempts >= self._next and not self._on and self._may_open():
            self._next = 2 * attempts
            self._open()

    def _evaluate(self) -> None:
        """The script goes on to evaluate: watch until its next step."""
        if self._progress.attempts and not self._on and self._evaluations < _EVALUATIONS and self._may_open():
            self._evaluations += 1
            self._open()

    def _may_open(self) -> bool:
        """Whether no mode of the script's own is on, which would end ours instead of itself."""
        modes = _get_current_function_mode_stack()
        ours = all(type(mode).__module__.startswith(_RECORDER) for mode in modes)
        return ours and threading.get_ident() == self._thread

    def close(self) -> None:
        """Stop. While there is a mode above ours, go on."""
        if self._on and _get_current_function_mode_stack()[-1:] == [self._mode]:
            self._on = False
            self._mode.__exit__(None, None, None)
            devices.watchers.clear()


def watch(progress: Progress, users: UsersCode) -> Watch:
    """Watch from now on, and write a `mixed` event for each line of the script that mixes."""
    seen: set[tuple[str, str]] = set()

    def tell(name: str) -> None:
        frame = users.caller()
        line = _line(frame)
        if frame is not None and (name, line) not in seen and len(seen) < _MOST:
            seen.add((name, line))
            place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            progress.writer.put("mixed", operation=name, place=place, line=line)

    return Watch(progress, _watching(tell))


def _name(func: Any) -> str:
    own: str = getattr(func, "__name__", "") or str(func)
    if own in ("__get__", "__set__"):
        return own
    return str(resolve_name(func) or own).rsplit(".", 1)[-1]


def _names_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) or type(value) is int


def _place(asked: Any) -> str:
    """A device object may be what a tensor of the GPU, or the stand-in, gave for the GPU; a name means what it says."""
    return _CPU if isinstance(asked, str) else ""


def _line(frame: Any) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if frame is not None else ""
