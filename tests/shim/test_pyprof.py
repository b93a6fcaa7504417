"""`amp_shim.pyprof`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from amp_shim import pyprof


class Ranges:
    """Stands for `emit_nvtx`, which needs a GPU."""

    entered: list[dict[str, Any]]

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __enter__(self) -> None:
        Ranges.entered.append(self.options)


@pytest.mark.parametrize(("has_gpu", "entered"), [(True, [{"record_shapes": True}]), (False, [])])
def test_operators_are_marked_once_where_there_is_a_gpu(
    has_gpu: bool, entered: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranges.entered = []
    pyprof.nvtx.init.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.autograd.profiler, "emit_nvtx", Ranges)
    pyprof.nvtx.init()
    pyprof.nvtx.init()
    assert Ranges.entered == entered
    pyprof.nvtx.init.cache_clear()
