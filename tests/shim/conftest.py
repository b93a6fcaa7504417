"""Mixed precision is process-wide: every test starts and ends without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from amp_shim import amp
from amp_shim.amp.state import AmpState


@pytest.fixture(autouse=True)
def fresh_amp() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    state = amp._amp_state
    if state.handle is not None:
        state.handle._deactivate()
    vars(state).update(vars(AmpState()))
