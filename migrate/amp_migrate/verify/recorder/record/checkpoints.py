"""Checkpoints: whether what the script saves holds its optimizers and the state of their loss scaler, and what else."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..progress import Progress
from ..spec import Resume
from .state import described

_DEPTH = 8
_MOST = 20_000  # entries that are told of one checkpoint
_OPTIMIZER = {"state", "param_groups"}
_SCALER = {"scale", "growth_factor", "backoff_factor"}
_PLAIN = (bool, int, float, str)


def install(progress: Progress) -> None:
    """Record a `checkpoint` event for each call of `torch.save`, with its content where programs are compared."""
    save = torch.save

    @functools.wraps(save)
    def recorded(obj: Any, *args: Any, **kwargs: Any) -> Any:
        entries = list(zip(range(_MOST), _entries("", obj, _DEPTH, "", progress.spec.program), strict=False))
        held = {part for _, (_, _, part) in entries}
        told = [[path, value] for _, (path, value, part) in entries if part != "scaler"]
        progress.writer.put(
            "checkpoint",
            optimizer="optimizer" in held,
            scaler="scaler" in held,
            attempt=progress.attempts,
            entries=told,
        )
        if "optimizer" in held and progress.spec.resume is Resume.SAVES:
            for call in progress.at_save:
                call()
        return save(obj, *args, **kwargs)

    holder: Any = torch
    holder.save = recorded


def _entries(path: str, value: Any, depth: int, part: str, bits: bool) -> Iterator[tuple[str, Any, str]]:
    """(path, value, part) of all that a value holds; the part is "optimizer", "scaler" or empty."""
    if isinstance(value, torch.amp.GradScaler):
        yield path, None, "scaler"
    elif isinstance(value, torch.optim.Optimizer):
        yield from _entries(path, value.state_dict(), depth, part, bits)
    elif isinstance(value, nn.Module):
        yield path, type(value).__name__, part
        yield from _entries(path, value.state_dict(), depth, part, bits)
    elif isinstance(value, Tensor):
        yield path, described(value) if bits else str(value.dtype).removeprefix("torch."), part
    elif isinstance(value, Mapping):
        keys = {key for key in value if isinstance(key, str)}
        part = "optimizer" if keys >= _OPTIMIZER else "scaler" if keys >= _SCALER else part
        if part:
            yield path, None, part
        for key, item in value.items() if depth else ():
            yield from _entries(f"{path}.{key}" if path else str(key), item, depth - 1, part, bits)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value) if depth else ():
            yield from _entries(f"{path}.{index}", item, depth - 1, part, bits)
    elif value is None or isinstance(value, _PLAIN):
        yield path, repr(value), part
    elif hasattr(value, "__dict__") and depth and not callable(value):
        yield from _entries(path, vars(value), depth - 1, part, bits)
