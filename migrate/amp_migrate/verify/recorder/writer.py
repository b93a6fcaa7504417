"""The event file: one JSON object per line, appended, so that a crash loses little."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from io import RawIOBase
from typing import Any, TextIO

from .spec import STEPS_SUFFIX

_FLUSH_EVERY = 64
_MOST = 1024
_TRAINING = ("backward", "step")
_PLAIN = frozenset((bool, dict, float, int, str, tuple))  # no tensors


class Writer:
    """Collects events and writes them in batches, to one file per process that trains.

    A value may be a tensor of one element, or a list of them: all of a batch are read together when it is written, so
    that recording a loss costs no synchronisation with the GPU. A process claims its file, `rank-N.jsonl`, with its
    first event of training; the script's own process does so at its end at the latest. Workers that load data and
    launchers so write nothing.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._script = self._process = os.getpid()
        self._file: TextIO | None = None
        self._silent = False
        self._trains = False
        self._pending: list[dict[str, Any]] = []
        self._path = ""
        self._steps: RawIOBase | None = None
        self._lock = threading.RLock()
        self.readers: list[Callable[[dict[str, Any]], None]] = []  # told of each event that is written
        os.register_at_fork(after_in_child=self._part_from_parent)

    def put(self, kind: str, **fields: Any) -> None:
        """Add an event."""
        if self._silent:
            return
        fields["kind"] = kind
        self._pending.append(fields)
        if not self._trains and kind in _TRAINING:
            with self._lock:
                self._trains = True
                self._claim()
        if len(self._pending) >= _FLUSH_EVERY:
            self.flush()

    def stepped(self) -> None:
        """Let who watches know of one more step at once: events are written in batches."""
        if self._file is not None:
            if self._steps is None:
                self._steps = open(self._path.removesuffix(".jsonl") + STEPS_SUFFIX, "ab", buffering=0)  # noqa: SIM115
            self._steps.write(b".")

    def flush(self) -> None:
        """Write what has been collected."""
        with self._lock:
            if self._file is None and self._is_script():
                self._claim()
            if self._file is None:
                return
            batch = self._pending[:]
            _read(batch)
            for event in batch:
                for reader in self.readers:
                    reader(event)
            self._file.write("".join([f"{json.dumps(event)}\n" for event in batch]))
            self._file.flush()
            del self._pending[: len(batch)]  # other threads may have added to it

    def _part_from_parent(self) -> None:
        """In a process forked from one that records: leave its file and its events to it."""
        self._process, self._file, self._silent, self._trains = os.getpid(), None, False, False
        self._steps = None
        self._pending = [event for event in self._pending if event["kind"] == "start"]
        self._lock = threading.RLock()  # another thread of the parent may have held it

    def _is_script(self) -> bool:
        """Whether this is the process that was started, not one that it made."""
        return self._process == self._script and multiprocessing.parent_process() is None

    def _claim(self) -> None:
        """Open the file of this process's rank; where another process has it already and trains, be silent."""
        rank = _rank()
        for number in (rank,) if rank is not None else range(_MOST):
            path = os.path.join(self._folder, f"rank-{number}.jsonl")
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            except FileExistsError:
                if self._trains:
                    continue
                break
            self._file = os.fdopen(descriptor, "a", encoding="utf-8")
            self._path = path
            return
        self._silent = True
        self._pending = []


def _rank() -> int | None:
    """The rank among the processes that train together; None in a script that trains in one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    rank = os.environ.get("RANK", "")
    if rank.isdigit():
        return int(rank)
    # Processes that share a model without a group: in the order in which the script made them.
    made: tuple[int, ...] = getattr(multiprocessing.current_process(), "_identity", ())
    return made[-1] - 1 if made else None


def _read(events: list[dict[str, Any]]) -> None:
    """Put the values of all tensors in `events` in their places: one transfer from each device."""
    devices: dict[Any, dict[Any, list[tuple[Any, Any, Any]]]] = {}
    for event in events:
        for key, value in event.items():
            places = [(value, *each) for each in enumerate(value)] if type(value) is list else [(event, key, value)]
            for holder, at, item in places:
                if type(item) not in _PLAIN and hasattr(item, "detach"):
                    kinds = devices.setdefault(item.device, {})
                    kinds.setdefault((item.dtype, item.shape), []).append((holder, at, item))
    for kinds in devices.values():
        torch = sys.modules["torch"]
        rows = [torch.stack([item for _, _, item in found]).flatten() for found in kinds.values()]
        values = torch.cat(rows).tolist()  # numbers of several dtypes become those of the widest
        for (holder, at, _), value in zip((place for found in kinds.values() for place in found), values, strict=True):
            holder[at] = float(value)
