"""`FP16_Optimizer`: masters, loss scale, overflow, closures, checkpoints."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.amp.scaling.scaler import LossScaler
from amp_shim.fp16_utils import FP16_Optimizer
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, Optimizer

INF = float("inf")
X = torch.tensor([[1.0, -2.0], [0.5, 4.0]])


class Mixed(nn.Module):
    """A half layer between float32 ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 3).half(), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x.to(self.first.weight.dtype))
        out: Tensor = self.last(hidden.to(self.last.weight.dtype))
        return out


def training(**options: Any) -> tuple[Mixed, FP16_Optimizer]:
    model = Mixed()
    return model, FP16_Optimizer(SGD(model.parameters(), lr=0.125, momentum=0.5), verbose=False, **options)


def loss_of(model: nn.Module) -> Tensor:
    loss: Tensor = (model(X) ** 2).mean()
    return loss


def weights(model: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in model.parameters()]


@pytest.mark.parametrize("options", [{}, {"static_loss_scale": 128.0}, {"dynamic_loss_scale": True}])
def test_training_follows_float_training(options: dict[str, Any]) -> None:
    model, optimizer = training(**options)
    reference = Mixed().float()
    reference.load_state_dict(model.state_dict())
    expected = SGD(reference.parameters(), lr=0.125, momentum=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        optimizer.backward(loss_of(model))
        optimizer.step()
        expected.zero_grad()
        loss_of(reference).backward()
        expected.step()
    for param, float_param in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(param.float(), float_param, rtol=2e-2, atol=2e-2)


def test_masters_take_the_place_of_half_parameters_at_once() -> None:
    model, optimizer = training()
    assert optimizer.all_fp16_params == [model.first.weight, model.first.bias]
    assert optimizer.all_fp32_from_fp32_params == [model.last.weight, model.last.bias]
    assert {param.dtype for param in optimizer.param_groups[0]["params"]} == {torch.float32}
    assert optimizer.param_groups[0]["params"][0] is optimizer.fp32_from_fp16_groups[0][0]


def test_momentum_from_before_goes_to_the_masters() -> None:
    model = nn.Linear(2, 1).half()
    inner = SGD(model.parameters(), lr=0.125, momentum=0.5)
    model(X.half()).sum().backward()
    inner.step()
    optimizer = FP16_Optimizer(inner, verbose=False)
    (master, _) = optimizer.all_fp32_from_fp16_params
    assert optimizer.state[master]["momentum_buffer"].dtype is torch.float32
    assert torch.equal(optimizer.state[master]["momentum_buffer"], X.sum(0, keepdim=True))


def test_overflow_skips_the_step_halves_the_scale_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = training(dynamic_loss_scale=True)
    before = weights(model)
    optimizer.backward(loss_of(model) * INF)
    assert optimizer.overflow
    assert optimizer.clip_master_grads(1.0) == -1
    assert optimizer.inspect_master_grad_data() is None
    assert optimizer.step() is None
    assert all(map(torch.equal, weights(model), before))
    assert optimizer.loss_scale == 2.0**15
    assert "Skipping step, reducing loss scale to 32768.0" in capsys.readouterr().out
    optimizer.zero_grad()
    optimizer.backward(loss_of(model))
    optimizer.step()
    assert not any(map(torch.equal, weights(model), before))


def test_dynamic_scale_takes_its_arguments_and_can_be_assigned() -> None:
    _, optimizer = training(dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 64.0, "scale_window": 1})
    assert optimizer.loss_scale == 64.0
    optimizer.backward(loss_of(Mixed()))
    assert optimizer.loss_scale == 128.0
    optimizer.loss_scale = 4.0
    assert optimizer.loss_scaler.loss_scale() == 4.0


def test_several_losses_share_one_update_of_the_masters() -> None:
    model, optimizer = training(static_loss_scale=16.0)
    optimizer.backward(loss_of(model))
    once = [param.grad.clone() for param in optimizer.param_groups[0]["params"]]
    optimizer.zero_grad()
    for _ in range(2):
        optimizer.backward(loss_of(model), update_master_grads=False)
    optimizer.update_master_grads()
    for param, grad in zip(optimizer.param_groups[0]["params"], once, strict=True):
        torch.testing.assert_close(param.grad, 2 * grad, rtol=2e-3, atol=1e-3)


def test_retained_graph_can_be_run_backward_again() -> None:
    model, optimizer = training()
    loss = loss_of(model)
    optimizer.backward(loss, update_master_grads=False, retain_graph=True)
    optimizer.backward(loss)


def test_clipping_and_inspection_see_unscaled_master_gradients() -> None:
    model, optimizer = training(static_loss_scale=256.0)
    optimizer.backward(loss_of(model))
    grads = optimizer.inspect_master_grad_data()
    assert grads is not None
    norm = torch.cat([grad.flatten() for grad in grads[0] if grad is not None]).norm()
    reference = Mixed().float()
    reference.load_state_dict(model.state_dict())
    loss_of(reference).backward()
    expected = torch.cat([param.grad.flatten() for param in reference.parameters() if param.grad is not None]).norm()
    torch.testing.assert_close(norm, expected, rtol=1e-2, atol=1e-2)
    assert float(optimizer.clip_master_grads(0.5)) == pytest.approx(norm.item())
    assert torch.cat([grad.flatten() for grad in grads[0] if grad is not None]).norm().item() == pytest.approx(0.5)


@pytest.mark.parametrize("to_none", [False, True])
def test_zero_grad_reaches_model_and_masters(to_none: bool) -> None:
    model, optimizer = training()
    optimizer.backward(loss_of(model))
    optimizer.zero_grad(set_grads_to_None=to_none)
    grads = [param.grad for param in (*model.parameters(), *optimizer.all_fp32_from_fp16_params)]
    assert [grad is None for grad in grads] == [to_none] * 6
    assert not any(grad.any() for grad in grads if grad is not None)


def test_closure_is_evaluated_on_the_masters_of_the_moment() -> None:
    model = Mixed()
    optimizer = FP16_Optimizer(LBFGS(model.parameters(), lr=0.5, max_iter=4), static_loss_scale=8.0, verbose=False)
    losses: list[float] = []
    fresh: list[bool] = []

    def is_fresh() -> bool:
        masters = optimizer.all_fp32_from_fp16_params
        return all(map(torch.equal, optimizer.all_fp16_params, [master.half() for master in masters]))

    def closure() -> Tensor:
        fresh.append(is_fresh())
        optimizer.zero_grad()
        loss = loss_of(model)
        optimizer.backward(loss)
        losses.append(loss.item())
        return loss

    assert optimizer.step(closure).item() == losses[0]
    assert len(losses) > 1
    assert losses[-1] < losses[0]
    assert optimizer.first_closure_call_this_step
    assert all(fresh)
    assert is_fresh()


def test_closure_that_overflows_is_run_again_at_a_lower_scale() -> None:
    model, optimizer = training(dynamic_loss_scale=True)
    factors = iter([INF, INF, 1.0])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model) * next(factors)
        optimizer.backward(loss)
        return loss

    assert torch.isfinite(optimizer.step(closure))
    assert optimizer.loss_scale == 2.0**14


def test_checkpoint_is_read_with_weights_only_and_keeps_the_masters_low_bits() -> None:
    model, optimizer = training(dynamic_loss_scale=True)
    for factor in (1.0, INF):
        optimizer.zero_grad()
        optimizer.backward(loss_of(model) * factor)
        if factor == 1.0:
            optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    checkpoint = torch.load(file, weights_only=True)
    resumed_model, resumed = training(dynamic_loss_scale=True)
    resumed_model.load_state_dict(checkpoint["model"])
    resumed.load_state_dict(checkpoint["optimizer"])
    assert resumed.overflow
    assert (resumed.loss_scale, resumed.loss_scaler._unskipped) == (2.0**15, 0)
    for each, other in ((model, optimizer), (resumed_model, resumed)):
        other.step()
        other.zero_grad()
        other.backward(loss_of(each))
        other.step()
    assert all(map(torch.equal, resumed.all_fp32_from_fp16_params, optimizer.all_fp32_from_fp16_params))
    assert all(map(torch.equal, weights(resumed_model), weights(model)))


def test_checkpoint_of_apex_holds_its_scaler_as_an_object() -> None:
    _, optimizer = training(dynamic_loss_scale=True)
    saved = optimizer.state_dict()
    saved["loss_scaler"] = LossScaler("dynamic", init_scale=4.0)
    optimizer.load_state_dict(saved)
    assert optimizer.loss_scale == 4.0


def test_parameters_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match=r"float32 or half, found torch\.float64"):
        FP16_Optimizer(SGD(nn.Linear(1, 1).double().parameters(), lr=0.1), verbose=False)


def test_pickling_is_refused_in_favour_of_the_state_dict() -> None:
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(training()[1])


def test_state_and_groups_are_those_of_the_inner_optimizer() -> None:
    model = Mixed()
    inner: Optimizer = Adam(model.parameters())
    optimizer = FP16_Optimizer(inner, verbose=False)
    optimizer.param_groups[0]["lr"] = 0.5
    assert inner.param_groups[0]["lr"] == 0.5
    optimizer.param_groups, optimizer.state = optimizer.param_groups, optimizer.state
    assert optimizer.state is inner.state


@pytest.mark.parametrize("as_list", [False, True])
def test_amp_refuses_an_optimizer_that_keeps_masters_itself(as_list: bool) -> None:
    model, optimizer = training()
    amp._amp_state.allow_incoming_model_not_fp32 = True
    with pytest.raises(RuntimeError, match="pass the optimizer it wraps"):
        amp.initialize(model, [optimizer] if as_list else optimizer, verbosity=0)
