"""The script's mixed precision in bfloat16, whatever half format it asks for."""

from __future__ import annotations

import functools
from typing import Any

import torch


def install() -> None:
    """Every autocast region is of bfloat16, and a GradScaler scales by nothing."""
    set_dtype: Any = torch.set_autocast_dtype
    holder: Any = torch
    holder.set_autocast_dtype = lambda device, dtype: set_dtype(device, torch.bfloat16)
    switch_scalers_off()


def switch_scalers_off() -> None:
    """Make every GradScaler one that was created with `enabled=False`."""
    scaler: Any = torch.amp.GradScaler
    init = scaler.__init__

    @functools.wraps(init)
    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._enabled = False

    scaler.__init__ = disabled
