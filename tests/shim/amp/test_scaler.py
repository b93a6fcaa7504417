"""The loss scale by itself: when it moves, and what counts as an overflow."""

from __future__ import annotations

import pytest
import torch
from amp_shim.amp.scaling.scaler import LossScaler

INF = float("inf")


def test_dynamic_scale_halves_on_overflow_and_doubles_after_a_clean_run() -> None:
    scaler = LossScaler("dynamic", scale_window=3, min_loss_scale=16384.0)
    assert scaler.loss_scale() == 65536.0
    grads = [torch.ones(2), torch.tensor([1.0, INF])]
    scales = []
    for _ in range(3):
        scaler.clear_overflow_state()
        scaler.unscale_([grad.clone() for grad in grads])
        assert scaler.update_scale()
        scales.append(scaler.loss_scale())
    assert scales == [32768.0, 16384.0, 16384.0]
    for _ in range(3):
        scaler.clear_overflow_state()
        scaler.unscale_([torch.ones(2)])
        assert not scaler.update_scale()
    assert scaler.loss_scale() == 32768.0


def test_constant_scale_never_moves() -> None:
    scaler = LossScaler(128.0, scale_window=1)
    scaler.unscale_([torch.ones(2)])
    assert not scaler.update_scale()
    assert scaler.loss_scale() == 128.0
    scaler.unscale_([torch.tensor([INF])])
    assert not scaler.update_scale()
    assert scaler.loss_scale() == 128.0


def test_scale_never_passes_its_ceiling() -> None:
    scaler = LossScaler("dynamic", max_loss_scale=1024.0, scale_window=1)
    assert scaler.loss_scale() == 1024.0
    scaler.update_scale()
    assert scaler.loss_scale() == 1024.0


@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
@pytest.mark.parametrize("place", [0, 27, 54])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_one_bad_number_anywhere_is_an_overflow(bad: float, place: int, dtype: torch.dtype) -> None:
    grads = [torch.ones(7, dtype=dtype) for _ in range(55)]
    grads[place][-1] = bad
    scaler = LossScaler("dynamic")
    scaler.unscale_([torch.ones(1), *grads])
    assert scaler.update_scale()


def test_static_scale_unscales_and_never_skips() -> None:
    scaler = LossScaler(4.0)
    grad = torch.tensor([4.0, INF])
    scaler.unscale_([grad])
    assert grad.tolist() == [1.0, INF]
    assert not scaler.update_scale()
    assert scaler.loss_scale() == 4.0
