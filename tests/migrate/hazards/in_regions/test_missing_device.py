"""AMP635: torch.amp.autocast() without a device type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]


@pytest.mark.parametrize("call", ["torch.amp.autocast(enabled=amp)", "torch.autocast()", "torch.amp.custom_fwd()"])
def test_a_call_without_a_device_type_raises_and_is_told(marked: Check, call: str) -> None:
    with pytest.raises(TypeError, match="device_type"):
        eval(call, {"torch": torch, "amp": True})
    marked(f"\nfrom torch.amp import autocast\n\ndef region(amp):\n    return {call}  # AMP635\n")


@pytest.mark.parametrize(
    "call",
    ["torch.amp.autocast('cuda')", "torch.autocast(device_type=amp)", "torch.cuda.amp.autocast()", "autocast(**amp)"],
)
def test_a_call_that_has_or_needs_none_is_right(clean: Check, call: str) -> None:
    clean(f"\nfrom torch.amp import autocast\n\ndef region(amp):\n    return {call}\n")
