"""Checkpoints: whether what the script saves holds its optimizers, and the state of their loss scaler."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..progress import Progress

_DEPTH = 4
_OPTIMIZER = {"state", "param_groups"}
_SCALER = {"scale", "growth_factor", "backoff_factor"}


def install(progress: Progress) -> None:
    """Record a `checkpoint` event for each call of `torch.save` that saves an optimizer or a scaler."""
    save = torch.save

    @functools.wraps(save)
    def recorded(obj: Any, *args: Any, **kwargs: Any) -> Any:
        held = set(_states(obj, _DEPTH))
        if held:
            progress.writer.put("checkpoint", optimizer="optimizer" in held, scaler="scaler" in held)
        return save(obj, *args, **kwargs)

    holder: Any = torch
    holder.save = recorded


def _states(value: Any, depth: int) -> Iterator[str]:
    """What the containers in `value` hold: "optimizer", "scaler"."""
    if isinstance(value, torch.amp.GradScaler):
        yield "scaler"
    elif isinstance(value, torch.optim.Optimizer):
        yield "optimizer"
    elif isinstance(value, Mapping):
        if value.keys() >= _OPTIMIZER:
            yield "optimizer"
        elif value.keys() >= _SCALER:
            yield "scaler"
        elif depth:
            for item in value.values():
                yield from _states(item, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for item in value[:16]:
            yield from _states(item, depth - 1)
