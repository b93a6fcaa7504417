"""Most tests here run on a CPU as well, where the same code is taken by another device's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from amp_shim import amp

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the test computes; mixed precision of the process ends with it."""
    torch.manual_seed(0)
    name: str = request.param
    yield name
    amp.reset()
