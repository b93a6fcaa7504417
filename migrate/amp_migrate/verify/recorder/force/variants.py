"""Things that often make a script faster, or that tell what would, done to one that does not do them."""

from __future__ import annotations

import functools
from contextlib import suppress
from typing import Any

import torch
import torch.utils.data.dataloader
from torch import nn

from ..measure.models import Found

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


def repeat_batches() -> None:
    """Make every data loader give its first batch again and again, as often as it would give batches.

    Those whose data set has no length are left alone.
    """
    iterator: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    following, reset = iterator.__next__, iterator._reset

    @functools.wraps(following)
    def again(self: Any) -> Any:
        if self._amp_verify_left is None:
            batch = following(self)
            with suppress(TypeError):
                self._amp_verify_left, self._amp_verify_batch = len(self._index_sampler) - 1, batch
            return batch
        if self._amp_verify_left == 0:
            raise StopIteration
        self._amp_verify_left -= 1
        return self._amp_verify_batch

    @functools.wraps(reset)
    def from_the_start(self: Any, *args: Any, **kwargs: Any) -> Any:  # workers that persist keep their iterator
        self._amp_verify_left = None
        return reset(self, *args, **kwargs)

    iterator._amp_verify_left = None
    iterator.__next__, iterator._reset = again, from_the_start
