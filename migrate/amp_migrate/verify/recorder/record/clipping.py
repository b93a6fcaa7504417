"""Clipping: what every clipping call was asked for and what it saw.

Scaled gradients may be clipped to a limit that is scaled as well: only the two together say what was done, so a norm is
told in limits. The norm that the last call before an optimizer step saw tells clipping before unscaling.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch.nn.utils
import torch.nn.utils.clip_grad

from ..progress import Progress


def install(progress: Progress) -> None:
    """Record a `clip` event for each call, and remember the last norm and its limit until the next optimizer step."""
    clip_norm = torch.nn.utils.clip_grad.clip_grad_norm_
    clip_value = torch.nn.utils.clip_grad.clip_grad_value_

    @functools.wraps(clip_norm)
    def recorded_norm(*args: Any, **kwargs: Any) -> Any:
        norm = clip_norm(*args, **kwargs)
        limit = float(args[1] if len(args) > 1 else kwargs["max_norm"])
        limit = limit if 0 < limit < math.inf else 1.0
        progress.clip_norm = norm.clone(), limit
        progress.writer.put("clip", call="clip_grad_norm_", attempt=progress.attempts, limit=limit, norm=norm.clone())
        return norm

    @functools.wraps(clip_value)
    def recorded_value(*args: Any, **kwargs: Any) -> Any:
        limit = float(args[1] if len(args) > 1 else kwargs["clip_value"])
        progress.writer.put("clip", call="clip_grad_value_", attempt=progress.attempts, limit=limit)
        return clip_value(*args, **kwargs)

    holders: tuple[Any, ...] = (torch.nn.utils, torch.nn.utils.clip_grad)
    for holder in holders:
        holder.clip_grad_norm_ = recorded_norm
        holder.clip_grad_value_ = recorded_value
