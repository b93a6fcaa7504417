"""Saving and restoring training."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from amp_shim import amp
from torch import Tensor, nn
from torch.optim import SGD, Adam

LEVELS = ("O0", "O1", "O2", "O3")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.gain = nn.Parameter(torch.rand(1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x * self.gain))
        return y.relu()


def build(level: str, num_losses: int = 1) -> tuple[Net, SGD]:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    amp.initialize(model, optimizer, opt_level=level, num_losses=num_losses, verbosity=0)
    return model, optimizer


def epoch(model: Net, optimizer: SGD, poison: float = 1.0, loss_id: int = 0) -> None:
    for x in torch.rand(3, 2, 1, 6, 6, generator=torch.Generator().manual_seed(1)):
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean() * poison
        with amp.scale_loss(loss, optimizer, loss_id=loss_id) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()


def round_trip(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def resumed(level: str, saved: dict[str, Any], load_first: bool) -> tuple[Net, SGD]:
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    if load_first:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    else:
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    amp.load_state_dict(saved["amp"])
    return model, optimizer


@pytest.mark.parametrize("load_first", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_resumed_training_goes_on_as_if_never_stopped(level: str, load_first: bool) -> None:
    model, optimizer = build(level)
    epoch(model, optimizer)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
    saved = round_trip(saved)
    epoch(model, optimizer)
    expected, scale = model.state_dict(), amp.state_dict()
    twin, twin_optimizer = resumed(level, saved, load_first)
    epoch(twin, twin_optimizer)
    assert amp.state_dict() == scale
    # O2 saves weights rounded to half, as Apex does: the masters' low bits are lost.
    tolerance = 2e-3 if level == "O2" else 0
    for name, entry in twin.state_dict().items():
        torch.testing.assert_close(entry, expected[name], rtol=tolerance, atol=tolerance)


def test_checkpoint_taken_between_overflow_and_step_restores_the_halved_scale() -> None:
    model, optimizer = build("O1")
    with amp.scale_loss(model(torch.rand(1, 1, 6, 6)).mean() * float("inf"), optimizer) as scaled_loss:
        scaled_loss.backward()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
    resumed("O1", round_trip(saved), load_first=False)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 0}}


def test_overflow_moves_the_scale_of_its_own_loss_only() -> None:
    model, optimizer = build("O1", num_losses=3)
    epoch(model, optimizer, poison=float("inf"), loss_id=1)
    assert amp.state_dict() == {
        "loss_scaler0": {"loss_scale": 65536.0, "unskipped": 0},
        "loss_scaler1": {"loss_scale": 65536.0 / 8, "unskipped": 0},
        "loss_scaler2": {"loss_scale": 65536.0, "unskipped": 0},
    }


def test_loss_id_without_a_scaler_is_an_index_error() -> None:
    model, optimizer = build("O1")
    with pytest.raises(IndexError):
        epoch(model, optimizer, loss_id=1)


def test_surplus_entries_are_skipped_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    build("O1")
    amp._amp_state.verbosity = 1
    entry = {"loss_scale": 8.0, "unskipped": 5}
    amp.load_state_dict({"loss_scaler0": entry, "loss_scaler1": entry})
    assert amp.state_dict() == {"loss_scaler0": entry}
    out = capsys.readouterr().out
    assert "holds 2 loss scalers, amp has 1" in out
    assert "Skipping loss_scaler1" in out


def test_foreign_key_is_refused_and_changes_nothing() -> None:
    build("O1")
    with pytest.raises(RuntimeError, match="unexpected key 'scale'"):
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 8.0, "unskipped": 5}, "scale": 1.0})
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 65536.0


def test_scale_of_a_native_scaler_is_taken_over() -> None:
    build("O1")
    native = torch.amp.GradScaler("cpu", init_scale=512.0)
    native.scale(torch.ones(1))
    amp.load_state_dict({**native.state_dict(), "_growth_tracker": 7})
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 512.0, "unskipped": 7}}


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
def test_model_trains_on_after_its_state_dict_was_taken(level: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = Adam(model.parameters(), lr=1e-2)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    losses = []
    for _ in range(10):
        model.state_dict()
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 4)).float() - 10).pow(2).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
