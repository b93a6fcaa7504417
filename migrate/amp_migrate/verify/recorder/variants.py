"""Things that often make a script faster, done to one that does not do them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from .models import Found

CHANNELS_LAST, COMPILE, FUSED = "channels_last", "compile", "fused"


def changer(variants: tuple[str, ...]) -> Found:
    """What changes a model before its first call."""

    def change(ordinal: int, model: nn.Module) -> None:
        if CHANNELS_LAST in variants:
            formatted: Any = model
            formatted.to(memory_format=torch.channels_last)
        if COMPILE in variants:
            model.compile()

    return change


def fuse() -> None:
    """Make PyTorch's optimizers fused where they can be, and the script asks for nothing else."""
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
        _fuse(kind)


def _fuse(kind: Any) -> None:
    init = kind.__init__

    @functools.wraps(init)
    def fused(self: Any, *args: Any, **kwargs: Any) -> None:
        asked = {"foreach", "fused", "differentiable"} & kwargs.keys()
        init(self, *args, **kwargs if asked else {**kwargs, "fused": True})

    kind.__init__ = fused
