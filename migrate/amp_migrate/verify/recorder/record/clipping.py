"""Clipping: the gradient norm that a clipping call saw, in limits, which tells clipping before unscaling.

Scaled gradients may be clipped to a limit that is scaled as well: only the two together say what was done.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch.nn.utils
import torch.nn.utils.clip_grad

from ..progress import Progress


def install(progress: Progress) -> None:
    """Remember the norm returned by `clip_grad_norm_`, and its limit, until the next optimizer step."""
    clip = torch.nn.utils.clip_grad.clip_grad_norm_

    @functools.wraps(clip)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        norm = clip(*args, **kwargs)
        limit = float(args[1] if len(args) > 1 else kwargs["max_norm"])
        progress.clip_norm = norm.clone(), limit if 0 < limit < math.inf else 1.0
        return norm

    holders: tuple[Any, ...] = (torch.nn.utils, torch.nn.utils.clip_grad)
    for holder in holders:
        holder.clip_grad_norm_ = recorded
