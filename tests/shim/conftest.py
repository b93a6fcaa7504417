"""Mixed precision is process-wide: every test starts and ends without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from amp_shim import amp


@pytest.fixture(autouse=True)
def fresh_amp() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    amp.reset()
