"""Clipping: the gradient norm that a clipping call saw, which tells clipping before unscaling."""

from __future__ import annotations

import functools
from typing import Any

import torch.nn.utils
import torch.nn.utils.clip_grad

from .progress import Progress


def install(progress: Progress) -> None:
    """Remember the norm returned by `clip_grad_norm_` until the next optimizer step."""
    clip = torch.nn.utils.clip_grad.clip_grad_norm_

    @functools.wraps(clip)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        norm = clip(*args, **kwargs)
        progress.clip_norm = norm.detach().clone()
        return norm

    holders: tuple[Any, ...] = (torch.nn.utils, torch.nn.utils.clip_grad)
    for holder in holders:
        holder.clip_grad_norm_ = recorded
