"""Mixed precision forced off, in every dialect: what the script computes when only its other edits count."""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import apex


def install() -> None:
    """Autocast never switches on, a GradScaler scales by nothing, and Apex's `initialize` leaves all as it was."""
    set_enabled: Any = torch.set_autocast_enabled

    def keep_off(*args: Any) -> None:
        set_enabled(*args[:-1], False)

    holder: Any = torch
    holder.set_autocast_enabled = keep_off

    scaler: Any = torch.amp.GradScaler
    init = scaler.__init__

    @functools.wraps(init)
    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._enabled = False

    scaler.__init__ = disabled
    apex.switch_off()
