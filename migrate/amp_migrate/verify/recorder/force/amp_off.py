"""Mixed precision forced off, in every dialect: what the script computes when only its other edits count."""

from __future__ import annotations

from typing import Any

import torch

from ..apex import apex_amp
from .bfloat16 import switch_scalers_off


def install() -> None:
    """Autocast never switches on, a GradScaler scales by nothing, and Apex's `initialize` leaves all as it was."""
    set_enabled: Any = torch.set_autocast_enabled

    def keep_off(*args: Any) -> None:
        set_enabled(*args[:-1], False)

    holder: Any = torch
    holder.set_autocast_enabled = keep_off
    switch_scalers_off()
    apex_amp.switch_off()
