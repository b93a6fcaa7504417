"""Loss scales, skipped steps and master weights in a training loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from amp_shim import amp
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import StepLR

INF = float("inf")


def training(level: str, **options: Any) -> tuple[nn.Linear, Optimizer]:
    model = nn.Linear(4, 2)
    optimizer: Optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    amp.initialize(model, optimizer, opt_level=level, verbosity=options.pop("verbosity", 0), **options)
    return model, optimizer


def backward(model: nn.Module, optimizer: Optimizer, poison: float = 1.0, **options: Any) -> None:
    loss = (model(torch.ones(3, 4)).float() ** 2).mean() * poison
    with amp.scale_loss(loss, optimizer, **options) as scaled_loss:
        scaled_loss.backward()


def weights(model: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in model.parameters()]


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_training_learns_and_gradients_are_unscaled_after_the_block(level: str) -> None:
    model, optimizer = training(level, loss_scale=128.0)
    reference = nn.Linear(4, 2)
    reference.load_state_dict(model.state_dict())
    (reference(torch.ones(3, 4)) ** 2).mean().backward()
    optimizer.zero_grad()
    backward(model, optimizer)
    for param, expected in zip(amp.master_params(optimizer), reference.parameters(), strict=True):
        assert param.grad is not None
        assert expected.grad is not None
        torch.testing.assert_close(param.grad.float(), expected.grad, rtol=1e-2, atol=1e-3)
    before = (model(torch.ones(3, 4)) ** 2).mean().item()
    for _ in range(5):
        optimizer.step()
        optimizer.zero_grad()
        backward(model, optimizer)
    assert (model(torch.ones(3, 4)) ** 2).mean().item() < before


def test_default_o0_yields_the_float_loss_unscaled() -> None:
    model, optimizer = training("O0")
    loss = model(torch.ones(1, 4)).sum().double()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss.dtype is torch.float32
        assert scaled_loss.item() == pytest.approx(loss.item())


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_overflow_skips_one_step_says_so_and_training_goes_on(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = training(level, verbosity=1)
    capsys.readouterr()
    before = weights(model)
    optimizer.zero_grad()
    backward(model, optimizer, poison=INF)
    assert optimizer._amp_stash.already_patched  # type: ignore[attr-defined]
    assert optimizer.step() is None
    assert all(map(torch.equal, weights(model), before))
    message = capsys.readouterr().out
    assert message == "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n"
    optimizer.zero_grad()
    backward(model, optimizer)
    optimizer.step()
    assert not any(map(torch.equal, weights(model), before))
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 1}}


def test_overflow_at_the_hundredth_step_is_caught() -> None:
    model, optimizer = training("O1")
    for _ in range(99):
        optimizer.zero_grad()
        backward(model, optimizer)
        optimizer.step()
    before = weights(model)
    backward(model, optimizer, poison=INF)
    optimizer.step()
    assert all(map(torch.equal, weights(model), before))
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 32768.0, "unskipped": 0}


def test_skipped_step_refuses_a_closure() -> None:
    model, optimizer = training("O1")
    backward(model, optimizer, poison=INF)
    with pytest.raises(RuntimeError, match="closures"):
        optimizer.step(lambda: 0.0)


def test_step_through_masters_refuses_a_closure() -> None:
    _, optimizer = training("O2")
    with pytest.raises(RuntimeError, match="closures"):
        optimizer.step(lambda: 0.0)


def test_step_with_a_closure_works_at_o1() -> None:
    model, optimizer = training("O1")
    before = weights(model)

    def closure() -> float:
        optimizer.zero_grad()
        backward(model, optimizer)
        return 1.0

    assert optimizer.step(closure) == 1.0
    assert not any(map(torch.equal, weights(model), before))


def test_masters_are_made_at_the_first_zero_grad_and_hold_what_was_loaded_before() -> None:
    model, optimizer = training("O2")
    assert next(iter(amp.master_params(optimizer))) is model.weight
    model.load_state_dict({"weight": torch.full((2, 4), 0.5), "bias": torch.zeros(2)})
    optimizer.zero_grad()
    master = next(iter(amp.master_params(optimizer)))
    assert master is not model.weight
    assert master.dtype is torch.float32
    assert torch.equal(master, torch.full((2, 4), 0.5))


def test_masters_keep_what_half_cannot_hold() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    optimizer = SGD(model.parameters(), lr=2.0**-13)
    amp.initialize(model, optimizer, opt_level="O2", loss_scale=1.0, verbosity=0)
    for _ in range(8):
        optimizer.zero_grad()
        with amp.scale_loss(-model(torch.ones(1, 1)).sum(), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    assert model.weight.item() == 1.0 + 8 * 2.0**-13
    assert next(amp.master_params(optimizer)).item() == 1.0 + 8 * 2.0**-13


def test_state_of_the_optimizer_is_float_under_masters() -> None:
    model, optimizer = training("O2")
    backward(model, optimizer)
    optimizer.step()
    assert {state["momentum_buffer"].dtype for state in optimizer.state.values()} == {torch.float32}
    assert set(optimizer.state) == set(amp.master_params(optimizer))


def test_zero_grad_zeroes_or_drops_the_models_gradients() -> None:
    model, optimizer = training("O2")
    backward(model, optimizer)
    optimizer.zero_grad()
    assert model.weight.grad is not None
    assert not model.weight.grad.any()
    assert all(param.grad is None for param in amp.master_params(optimizer))
    optimizer.zero_grad(set_to_none=True)
    assert model.weight.grad is None


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_accumulated_backwards_add_up_under_different_scales(level: str) -> None:
    model, optimizer = training(level, loss_scale=4.0)
    optimizer.zero_grad()
    backward(model, optimizer)
    once = [param.grad.clone() for param in amp.master_params(optimizer) if param.grad is not None]
    amp._amp_state.loss_scalers[0]._loss_scale = 32.0
    backward(model, optimizer)
    for param, grad in zip(amp.master_params(optimizer), once, strict=True):
        assert param.grad is not None
        assert torch.equal(param.grad, grad * 2)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_delayed_unscale_is_completed_by_the_next_pass(level: str) -> None:
    model, optimizer = training(level, loss_scale=8.0)
    optimizer.zero_grad()
    backward(model, optimizer)
    once = [param.grad.clone() for param in amp.master_params(optimizer) if param.grad is not None]
    optimizer.zero_grad()
    if level == "O1":
        model.zero_grad()
    backward(model, optimizer, delay_unscale=True)
    backward(model, optimizer)
    for param, grad in zip(amp.master_params(optimizer), once, strict=True):
        assert param.grad is not None
        torch.testing.assert_close(param.grad, grad * 2, rtol=2e-3, atol=1e-4)


def test_delayed_overflow_check_neither_moves_the_scale_nor_skips() -> None:
    model, optimizer = training("O1")
    backward(model, optimizer, poison=INF, delay_overflow_check=True)
    assert not optimizer._amp_stash.already_patched  # type: ignore[attr-defined]
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 65536.0, "unskipped": 0}


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_exception_in_the_block_leaves_gradients_and_scale_as_they_were(level: str) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    optimizer = SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    backward(model, optimizer)
    before = [param.grad.clone() for param in amp.master_params(optimizer) if param.grad is not None]
    loss = model(torch.rand(3, 4)).sum()

    def fail() -> None:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    after = [param.grad for param in amp.master_params(optimizer) if param.grad is not None]
    assert len(after) == 4
    assert all(map(torch.equal, after, before))
    assert amp.state_dict()["loss_scaler0"]["unskipped"] == 1
    backward(model, optimizer)


def test_unlisted_optimizer_is_named() -> None:
    model, _ = training("O1")
    with (
        pytest.raises(RuntimeError, match=r"not passed to amp\.initialize"),
        amp.scale_loss(model(torch.ones(1, 4)).sum(), SGD(model.parameters(), lr=0.1)),
    ):
        raise AssertionError("the block must not run")


def test_parameter_of_another_type_is_refused() -> None:
    param = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = SGD([param], lr=0.1)
    amp.initialize(nn.Linear(1, 1), optimizer, opt_level="O1", verbosity=0)
    with pytest.raises(TypeError, match=r"found torch\.float64"), amp.scale_loss(param.sum(), optimizer):
        raise AssertionError("the block must not run")


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.filterwarnings("error:Seems like")
def test_scheduler_works_whether_built_before_or_after(level: str) -> None:
    model = nn.Linear(4, 2)
    optimizer = SGD(model.parameters(), lr=1.0)
    early = StepLR(optimizer, step_size=1, gamma=0.5)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    late = StepLR(optimizer, step_size=1, gamma=0.5)
    backward(model, optimizer)
    optimizer.step()
    early.step()
    late.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
