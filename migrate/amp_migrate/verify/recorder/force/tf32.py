"""TF32 on or off for the whole script, whatever it says before its first forward pass."""

from __future__ import annotations

import torch
from torch import nn

from ..measure.models import Found


def setter(on: bool) -> Found:
    """What sets it where a model is called for the first time, after the script's own settings."""

    def switch(ordinal: int, model: nn.Module) -> None:
        torch.backends.cuda.matmul.allow_tf32 = on
        torch.backends.cudnn.allow_tf32 = on

    return switch
