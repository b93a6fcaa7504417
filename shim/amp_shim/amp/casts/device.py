"""The device that mixed precision is about."""

from __future__ import annotations

import torch


def device_type() -> str:
    """`"cuda"` where there is a GPU, else `"cpu"`, which then stands in for it."""
    return "cuda" if torch.cuda.is_available() else "cpu"
