"""`amp_shim.optimizers` in training loops: checks, checkpoints, scalers, opt levels, copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.optimizers import (
    FusedAdagrad,
    FusedAdam,
    FusedLAMB,
    FusedMixedPrecisionLamb,
    FusedNovoGrad,
    FusedSGD,
)
from amp_shim.optimizers.base import FusedOptimizer
from amp_shim.parallel import LARC
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR

INF = float("inf")
KINDS: list[type[FusedOptimizer]] = [
    FusedAdagrad, FusedAdam, FusedLAMB, FusedMixedPrecisionLamb, FusedNovoGrad, FusedSGD
]  # fmt: skip
X = torch.tensor([[1.0, -2.0], [0.5, 4.0]])


def make(kind: type[FusedOptimizer], params: Any, **options: Any) -> FusedOptimizer:
    momentum = {"momentum": 0.9} if kind is FusedSGD else {}
    return kind(params, **{"lr": 0.05, **momentum, **options})


def loss_of(model: nn.Module) -> Tensor:
    loss: Tensor = (model(X.to(next(model.parameters()).dtype)).float() ** 2).mean()
    return loss


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()


def weights(model: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in model.parameters()]


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_at_every_level_and_skips_an_overflow(kind: type[FusedOptimizer], level: str) -> None:
    model = nn.Linear(2, 1)
    optimizer = make(kind, model.parameters())
    amp.initialize(model, optimizer, opt_level=level, loss_scale="dynamic", verbosity=0)
    amp._amp_state.loss_scalers[0]._loss_scale = 64.0
    losses = []
    for step in range(8):
        optimizer.zero_grad()
        before = weights(model)
        loss = (model(X).float() ** 2).mean()
        losses.append(loss.item())
        with amp.scale_loss(loss * (INF if step == 3 else 1.0), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        assert all(map(torch.equal, weights(model), before)) is (step == 3)
    assert losses[-1] < losses[0]
    assert {param.dtype for param in amp.master_params(optimizer)} == {
        torch.float16 if level == "O3" else torch.float32
    }


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not FusedMixedPrecisionLamb])
def test_native_scaler_unscales_and_skips(kind: type[FusedOptimizer]) -> None:
    model, plain = nn.Linear(2, 1), nn.Linear(2, 1)
    plain.load_state_dict(model.state_dict())
    optimizer, expected = make(kind, model.parameters()), make(kind, plain.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for factor in (1.0, INF, 1.0):
        optimizer.zero_grad()
        scaler.scale(loss_of(model) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    train(plain, expected, 2)
    for param, reference in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(param, reference)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("kind", [FusedMixedPrecisionLamb, FusedAdam])
def test_scaler_hands_its_scale_over_where_gradients_are_half(kind: type[FusedOptimizer], clip: bool) -> None:
    dtype = torch.float32 if clip else torch.float16
    model, plain = nn.Linear(2, 1).to(dtype), nn.Linear(2, 1).to(dtype)
    plain.load_state_dict(model.state_dict())
    options: dict[str, Any] = {"capturable": True} if kind is FusedAdam else {}
    optimizer, expected = make(kind, model.parameters(), **options), make(kind, plain.parameters(), **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for factor in (1.0, INF, 1.0):
        optimizer.zero_grad()
        scaler.scale(loss_of(model) * factor).backward()
        if clip:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 128.0
    train(plain, expected, 2)
    for param, reference in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(param, reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_training_goes_on_bit_for_bit(kind: type[FusedOptimizer], dtype: torch.dtype) -> None:
    model = nn.Linear(2, 1).to(dtype)
    optimizer = make(kind, model.parameters())
    train(model, optimizer)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = nn.Linear(2, 1).to(dtype)
    other.load_state_dict(saved["model"])
    resumed = make(kind, other.parameters())
    resumed.load_state_dict(saved["optimizer"])
    for state in resumed.state.values():
        assert {value.dtype for value in state.values()} == {torch.float32}
    train(model, optimizer)
    train(other, resumed)
    assert all(map(torch.equal, weights(other), weights(model)))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"])
@pytest.mark.parametrize("kind", KINDS)
def test_copy_and_pickle_train_on_alike(kind: type[FusedOptimizer], how: Any) -> None:
    model = nn.Linear(2, 1).half()
    optimizer = make(kind, model.parameters(), **({"use_nvlamb": True} if kind is FusedLAMB else {}))
    train(model, optimizer)
    other, other_optimizer = how((model, optimizer))
    train(model, optimizer)
    train(other, other_optimizer)
    assert all(map(torch.equal, weights(other), weights(model)))


@pytest.mark.parametrize("kind", [FusedAdam, FusedLAMB, FusedNovoGrad])
def test_checkpoint_of_apex_counts_steps_by_group(kind: type[FusedOptimizer]) -> None:
    model = nn.Linear(2, 1)
    model.bias.data = model.bias.data.half()
    optimizer = make(kind, model.parameters())
    for param in model.parameters():
        param.grad = torch.ones_like(param)
    optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    (group,) = saved["param_groups"]
    group["step"] = 1
    for state in saved["state"].values():
        state.pop("step", None)
    if kind is FusedNovoGrad:
        floats, halves = (state.pop("exp_avg_sq").reshape(1) for state in saved["state"].values())
        group["exp_avg_sq"] = [halves, floats]
    other = copy.deepcopy(model)
    resumed = make(kind, other.parameters())
    resumed.load_state_dict(saved)
    for each, each_optimizer in ((model, optimizer), (other, resumed)):
        for param in each.parameters():
            param.grad = torch.full_like(param, 0.5)
        each_optimizer.step()
    assert all(map(torch.equal, weights(other), weights(model)))


def test_checkpoint_of_adam_goes_on_in_torch() -> None:
    model = nn.Linear(2, 1)
    optimizer = make(FusedAdam, model.parameters(), weight_decay=0.5)
    train(model, optimizer)
    other = copy.deepcopy(model)
    native = AdamW(other.parameters())
    native.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, optimizer)
    train(other, native)
    for param, reference in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(param, reference)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (FusedAdam, {"capturable": True, "master_weights": True}),
        (FusedMixedPrecisionLamb, {"reduced_precision_dtype": torch.float16}),
    ],
)
def test_masters_keep_what_half_cannot_hold(kind: Callable[..., FusedOptimizer], options: dict[str, Any]) -> None:
    param = nn.Parameter(torch.ones(4).half())
    optimizer = kind([param], lr=2.0**-14, weight_decay=0.0, **options)
    for _ in range(16):
        param.grad = torch.ones(4).half()
        optimizer.step()
    torch.testing.assert_close(param, torch.full((4,), 1.0 - 2.0**-10).half())
    resumed = kind([param], lr=2.0**-14, weight_decay=0.0, **options)
    resumed.load_state_dict(optimizer.state_dict())
    assert torch.equal(resumed.state[param]["master"], optimizer.state[param]["master"])
    assert resumed.state[param]["master"].dtype is torch.float32


@pytest.mark.parametrize(("kind", "drops"), [(kind, kind is not FusedSGD) for kind in KINDS])
def test_zero_grad_drops_gradients_unless_told_otherwise(kind: type[FusedOptimizer], drops: bool) -> None:
    param = nn.Parameter(torch.ones(1))
    optimizer = make(kind, [param])
    for argument, expected in ((None, drops), (False, False), (True, True)):
        param.grad = torch.ones(1)
        optimizer.zero_grad(argument)
        assert (param.grad is None) is expected
        assert expected or not param.grad.any()


@pytest.mark.parametrize("kind", KINDS)
def test_closure_is_run_with_gradients_and_its_loss_comes_back(kind: type[FusedOptimizer]) -> None:
    model = nn.Linear(2, 1)
    optimizer = make(kind, model.parameters())
    before = weights(model)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    assert optimizer.step(closure).requires_grad
    assert not any(map(torch.equal, weights(model), before))


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_gradients_and_double_parameters_are_refused(kind: type[FusedOptimizer]) -> None:
    embedding = nn.Embedding(3, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse"):
        make(kind, embedding.parameters()).step()
    param = nn.Parameter(torch.ones(1).double())
    param.grad = torch.ones(1).double()
    with pytest.raises(RuntimeError, match=r"float32 or half, found torch\.float64"):
        make(kind, [param]).step()


@pytest.mark.parametrize("kind", [FusedAdam, FusedLAMB, FusedMixedPrecisionLamb, FusedNovoGrad])
def test_amsgrad_is_refused(kind: type[FusedOptimizer]) -> None:
    with pytest.raises(RuntimeError, match=f"{kind.__name__} does not support the AMSGrad"):
        make(kind, [nn.Parameter(torch.ones(1))], amsgrad=True)


def test_contradictory_options_are_refused() -> None:
    params = [nn.Parameter(torch.ones(1))]
    with pytest.raises(RuntimeError, match="needs capturable=True"):
        FusedAdam(params, master_weights=True)
    with pytest.raises(RuntimeError, match="norm_type must be 2"):
        FusedNovoGrad(params, norm_type=1)
    with pytest.raises(ValueError, match="momentum and no dampening"):
        FusedSGD(params, lr=0.1, nesterov=True)
    with pytest.raises(ValueError, match="momentum and no dampening"):
        FusedSGD(params, lr=0.1, momentum=0.9, dampening=0.1, nesterov=True)
    with pytest.raises(ValueError, match="lr must not be negative"):
        FusedSGD(params, lr=-0.1)
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        FusedSGD(params)


def test_sgd_takes_learning_rates_from_its_groups() -> None:
    params = [nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = FusedSGD([{"params": [param], "lr": lr} for param, lr in zip(params, (0.25, 0.5), strict=True)])
    for param in params:
        param.grad = torch.ones(1)
    optimizer.step()
    assert [param.item() for param in params] == [0.75, 0.5]


@pytest.mark.parametrize("removed", ["grads", "output_params", "scale", "grad_norms"])
def test_step_of_adam_refuses_what_it_took_before(removed: str) -> None:
    with pytest.raises(RuntimeError, match=r"call step\(\) without them"):
        FusedAdam([nn.Parameter(torch.ones(1))]).step(None, **{removed: 1.0})


def test_group_added_later_takes_the_defaults() -> None:
    first, late = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = FusedLAMB([first], lr=0.25, weight_decay=0.0)
    first.grad = torch.ones(2)
    optimizer.step()
    optimizer.add_param_group({"params": [late]})
    first.grad, late.grad = None, torch.ones(2)
    optimizer.step()
    torch.testing.assert_close(late.detach(), torch.full((2,), 0.75))


def test_scheduler_and_larc_work_around_a_fused_optimizer() -> None:
    model = nn.Linear(2, 1)
    optimizer = make(FusedSGD, model.parameters())
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    train(model, optimizer, 1)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.025
    larc: Any = LARC(optimizer)
    before = weights(model)
    train(model, larc, 1)
    assert not any(map(torch.equal, weights(model), before))


def test_infinite_weights_stay_infinite_without_decay() -> None:
    param = nn.Parameter(torch.tensor([float("inf"), 1.0]))
    param.grad = torch.ones(2)
    FusedAdagrad([param], lr=0.5).step()
    torch.testing.assert_close(param.detach(), torch.tensor([float("inf"), 0.5]))


def test_steps_are_counted_on_the_host_for_a_device_without_a_fused_kernel() -> None:
    param = nn.Parameter(torch.ones(2, device="meta"))
    param.grad = torch.ones(2, device="meta")
    optimizer = FusedAdam([param])
    optimizer.step()
    assert optimizer.state[param]["step"].item() == 1.0


def test_checkpoint_that_counts_steps_in_plain_numbers_loads() -> None:
    param = nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    optimizer = FusedAdam([param])
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 3
    optimizer.load_state_dict(saved)
    optimizer.step()
    assert optimizer.state[param]["step"].item() == 4.0


def test_sgd_without_momentum_keeps_nothing() -> None:
    model = nn.Linear(2, 1)
    optimizer = FusedSGD(model.parameters(), lr=0.1)
    train(model, optimizer, 2)
    assert not any(optimizer.state_dict()["state"].values())


def test_adam_restores_the_state_of_those_parameters_that_have_one() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    used.grad = torch.ones(2)
    optimizer = FusedAdam([unused, used])
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[used]["step"].item() == 1.0
    assert not optimizer.state.get(unused)


def test_moments_of_mixed_precision_lamb_are_those_of_unscaled_gradients() -> None:
    param = nn.Parameter(torch.ones(2))
    optimizer: Any = FusedMixedPrecisionLamb([param], betas=(0.5, 0.5), max_grad_norm=1e9)
    optimizer.grad_scale = torch.tensor(64.0)
    param.grad = torch.full((2,), 64.0)
    optimizer.step()
    torch.testing.assert_close(optimizer.state[param]["exp_avg"], torch.full((2,), 0.5))


def test_a_scaler_leaves_unscaled_gradients_behind_in_half_too() -> None:
    param = nn.Parameter(torch.ones(2).half())
    optimizer: Any = FusedAdam([param], capturable=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(64.0), torch.tensor(0.0)
    param.grad = torch.full((2,), 64.0).half()
    optimizer.step()
    assert torch.equal(param.grad, torch.ones(2).half())


def test_type_that_gets_masters_may_be_assigned_before_the_first_step() -> None:
    param = nn.Parameter(torch.ones(2).half())
    optimizer = FusedMixedPrecisionLamb([param])
    assert optimizer.reduced_precision_dtype is None
    optimizer.reduced_precision_dtype = torch.float16
    param.grad = torch.ones(2).half()
    optimizer.step()
    assert optimizer.state[param]["master"].dtype is torch.float32
