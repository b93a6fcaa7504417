"""`amp.init`: the handle API, and casts that are announced."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from amp_shim import amp
from amp_shim.amp.handle import AmpHandle, NoOpHandle
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

HALF, FLOAT = torch.float16, torch.float32
INF = float("inf")
X = torch.tensor([[1.0, -2.0], [0.5, 4.0]])


def training() -> tuple[nn.Linear, Optimizer]:
    model = nn.Linear(2, 1)
    return model, SGD(model.parameters(), lr=8.0)


def loss_of(model: nn.Module) -> Tensor:
    loss: Tensor = (model(X).float() ** 2).mean() / 64  # small enough for a scale of 2^16
    return loss


def weights(model: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in model.parameters()]


def test_init_casts_operators_until_the_handle_is_deactivated() -> None:
    handle = amp.init()
    assert handle.is_active()
    assert amp._amp_state.handle is handle
    assert nn.Linear(2, 1)(X).dtype is HALF
    with handle._disable_casts():
        assert not handle.is_active()
        assert nn.Linear(2, 1)(X).dtype is FLOAT
    handle._clear_cache()
    assert not handle.has_cache
    handle._deactivate()
    assert nn.Linear(2, 1)(X).dtype is FLOAT


def test_weight_that_changed_in_an_open_region_is_cast_anew_once_the_cache_is_cleared() -> None:
    handle = amp.init()
    assert isinstance(handle, AmpHandle)
    layer = nn.Linear(2, 1, bias=False)
    with torch.autocast("cpu", dtype=HALF, cache_enabled=True):
        before = layer(X)
        with torch.no_grad():
            layer.weight.mul_(2.0)
        assert torch.equal(layer(X), before)
        handle._clear_cache()
        assert torch.equal(layer(X), 2.0 * before)


def test_banned_loss_can_be_allowed() -> None:
    half = torch.full((2,), 0.5).half()
    amp.init()
    with pytest.raises(NotImplementedError):
        F.binary_cross_entropy(half, half)
    amp.init(allow_banned=True)
    assert F.binary_cross_entropy(half, half).dtype is FLOAT
    assert nn.BCELoss()(half, half).dtype is FLOAT


@pytest.mark.parametrize("wrapped", [False, True])
def test_scaled_training_follows_float_training_and_skips_an_overflow(
    wrapped: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, expected = training()
    model, optimizer = training()
    model.load_state_dict(reference.state_dict())
    handle = amp.init(loss_scale="dynamic")
    each: Any = handle.wrap_optimizer(optimizer) if wrapped else optimizer
    for factor in (1.0, INF, 1.0):
        each.zero_grad()
        loss = loss_of(model) * factor
        with each.scale_loss(loss) if wrapped else handle.scale_loss(loss, optimizer) as scaled_loss:
            assert scaled_loss.item() != loss.item() or factor == INF
            scaled_loss.backward()
        each.step()
    assert "Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out
    handle._deactivate()
    for _ in range(2):
        expected.zero_grad()
        loss_of(reference).backward()
        expected.step()
    for param, float_param in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(param, float_param, rtol=2e-2, atol=2e-2)


def test_wrapped_optimizer_keeps_a_scale_for_each_loss() -> None:
    model, optimizer = training()
    wrapper: Any = amp.init().wrap_optimizer(optimizer, num_loss=2)
    before = weights(model)
    for factor in (1.0, INF):
        with wrapper.scale_loss(loss_of(model) * factor) as scaled_loss:
            scaled_loss.backward()
    with pytest.raises(RuntimeError, match="num_loss=3"), wrapper.scale_loss(loss_of(model)):
        raise AssertionError("the block must not run")
    wrapper.step()
    assert all(map(torch.equal, weights(model), before))
    assert [scaler.loss_scale() for scaler in wrapper._scalers] == [65536.0, 32768.0]
    wrapper.zero_grad()
    for _ in range(2):
        with wrapper.scale_loss(loss_of(model)) as scaled_loss:
            scaled_loss.backward()
    wrapper.step()
    assert not any(map(torch.equal, weights(model), before))


def test_wrapped_optimizer_is_the_optimizer_in_everything_else() -> None:
    _, optimizer = training()
    wrapper: Any = amp.init().wrap_optimizer(optimizer)
    assert wrapper.param_groups is optimizer.param_groups
    assert copy.copy(wrapper).param_groups is optimizer.param_groups
    with pytest.raises(NotImplementedError, match="closure"):
        wrapper.step(lambda: 0.0)
    with pytest.raises(AttributeError):
        _ = wrapper.nothing


@pytest.mark.parametrize("wrapped", [False, True])
def test_disabled_handle_passes_everything_through(wrapped: bool) -> None:
    handle = amp.init(enabled=False)
    assert isinstance(handle, NoOpHandle)
    model, optimizer = training()
    assert not handle.is_active()
    assert model(X).dtype is FLOAT
    loss = loss_of(model)
    each: Any = handle.wrap_optimizer(optimizer) if wrapped else None
    with each.scale_loss(loss) if wrapped else handle.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss
    with handle._disable_casts():
        handle._clear_cache()
    handle._deactivate()


def test_handle_yields_the_loss_while_casts_are_off() -> None:
    handle = amp.init()
    handle._deactivate()
    model, optimizer = training()
    loss = loss_of(model)
    with handle.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss


def test_second_init_replaces_the_first() -> None:
    first = amp.init()
    second = amp.init()
    assert isinstance(first, AmpHandle)
    assert amp._amp_state.handle is second
    second._deactivate()
    assert nn.Linear(2, 1)(X).dtype is FLOAT


def casts_printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if "->" in line]


@pytest.mark.parametrize("how", ["init", "initialize"])
def test_every_cast_is_printed_on_request(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.ones(1, 2)
    if how == "init":
        amp.init(verbose=True)
    else:
        amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=2)
    capsys.readouterr()
    y = F.linear(X, weight)
    assert casts_printed(capsys) == ["Float->Half (linear)", "Float->Half (linear)"]
    y.softmax(-1)
    y.softmax(-1, dtype=torch.float16)
    assert casts_printed(capsys) == ["Half->Float (softmax)"]
    torch.atan2(y, torch.ones(2, 1))
    assert casts_printed(capsys) == ["Half->Float (atan2)"]
    torch.relu(y)
    F.linear(X.half(), weight.half())
    assert casts_printed(capsys) == []


def test_casts_are_silent_at_verbosity_one(capsys: pytest.CaptureFixture[str]) -> None:
    amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=1)
    nn.Linear(2, 1)(X)
    assert casts_printed(capsys) == []


def test_verbosity_can_change_between_two_calls(capsys: pytest.CaptureFixture[str]) -> None:
    for verbosity, expected in ((0, 0), (2, 3), (0, 0)):
        amp.initialize(nn.Linear(1, 1), opt_level="O1", verbosity=verbosity)
        capsys.readouterr()
        assert nn.Linear(2, 1)(X).dtype is HALF
        assert len(casts_printed(capsys)) == expected


def test_handle_is_not_active_in_a_region_of_the_scripts_own() -> None:
    handle = amp.init()
    handle._deactivate()
    with torch.autocast("cpu", dtype=HALF):
        assert not handle.is_active()
    assert isinstance(handle, AmpHandle)
    handle.activate()
    assert handle.is_active()
