"""`amp_shim.fp16_utils`: half networks and the hand-written loop over master weights."""

from __future__ import annotations

import pytest
import torch
from amp_shim.fp16_utils import (
    BN_convert_float,
    DynamicLossScaler,
    FP16Model,
    LossScaler,
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    network_to_half,
    prep_param_lists,
    to_python_float,
)
from torch import Tensor, nn
from torch.optim import SGD

HALF, FLOAT = torch.float16, torch.float32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.plain = nn.BatchNorm1d(3, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.plain(self.norm(self.linear(x)))
        return out


def dtypes(module: nn.Module) -> dict[str, torch.dtype]:
    return {name: value.dtype for name, value in module.state_dict().items()}


def test_fp16_model_keeps_affine_batch_norms_and_halves_the_rest() -> None:
    found = dtypes(FP16Model(Net()))
    assert found.pop("network.norm.num_batches_tracked") is torch.int64
    assert found.pop("network.plain.num_batches_tracked") is torch.int64
    assert {name for name, dtype in found.items() if dtype is FLOAT} == {
        f"network.norm.{name}" for name in ("weight", "bias", "running_mean", "running_var")
    }
    assert found["network.linear.weight"] is found["network.plain.running_var"] is HALF


def test_fp16_model_casts_floating_inputs_and_no_others() -> None:
    class Gather(nn.Module):
        def forward(self, x: Tensor, index: Tensor) -> Tensor:
            return x[index]

    assert FP16Model(Gather())(torch.ones(3), torch.tensor([0, 2])).dtype is HALF
    assert FP16Model(Net())(torch.ones(2, 4)).dtype is HALF


def test_network_to_half_casts_its_input_and_prefixes_its_keys() -> None:
    network = network_to_half(Net())
    assert network(torch.ones(2, 4)).dtype is HALF
    assert {key.split(".")[0] for key in network.state_dict()} == {"1"}
    assert dtypes(network)["1.norm.running_mean"] is FLOAT
    assert dtypes(network)["1.plain.running_mean"] is HALF


def test_batch_norm_itself_is_converted_and_returned() -> None:
    norm = nn.BatchNorm2d(2).half()
    assert BN_convert_float(norm) is norm
    assert norm.weight.dtype is FLOAT


@pytest.mark.parametrize("flat", [False, True])
def test_hand_written_loop_trains_the_masters(flat: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)).half()
    reference = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    reference.load_state_dict(model.state_dict())
    model_params, masters = prep_param_lists(model, flat)
    assert len(masters) == (1 if flat else 4)
    assert all(master.dtype is FLOAT and master.requires_grad for master in masters)
    optimizer, expected = SGD(masters, lr=0.125), SGD(reference.parameters(), lr=0.125)
    x = torch.ones(2, 4)
    for _ in range(3):
        model.zero_grad()
        model(x.half()).float().sum().backward()
        model_grads_to_master_grads(model_params, masters, flat)
        optimizer.step()
        master_params_to_model_params(model_params, masters, flat)
        expected.zero_grad()
        reference(x).sum().backward()
        expected.step()
    for param, float_param in zip(model.parameters(), reference.parameters(), strict=True):
        assert param.dtype is HALF
        torch.testing.assert_close(param.float(), float_param, rtol=1e-2, atol=1e-2)


def test_masters_keep_what_half_cannot_hold() -> None:
    model = nn.Linear(1, 1, bias=False).half()
    nn.init.ones_(model.weight)
    model_params, masters = prep_param_lists(model)
    with torch.no_grad():
        masters[0].add_(2.0**-13)
    master_params_to_model_params(model_params, masters)
    assert (model.weight.item(), masters[0].item()) == (1.0, 1.0 + 2.0**-13)


def test_frozen_parameters_are_left_out_and_a_missing_gradient_stays_missing() -> None:
    model = nn.Linear(2, 2).half()
    model.bias.requires_grad_(False)
    model_params, masters = prep_param_lists(model)
    assert model_params == [model.weight]
    masters[0].grad = torch.ones(2, 2)
    model_grads_to_master_grads(model_params, masters)
    assert masters[0].grad is None


def test_flat_master_needs_one_type_and_every_gradient() -> None:
    with pytest.raises(RuntimeError, match="flat_master=True needs parameters of one type"):
        prep_param_lists(nn.Sequential(nn.Linear(1, 1).half(), nn.Linear(1, 1)), flat_master=True)
    model_params, masters = prep_param_lists(nn.Linear(1, 1).half(), flat_master=True)
    with pytest.raises(RuntimeError, match="needs a gradient"):
        model_grads_to_master_grads(model_params, masters, flat_master=True)


def test_number_of_a_tensor_and_of_a_sequence() -> None:
    assert to_python_float(torch.tensor([2.5])) == 2.5
    assert to_python_float([3.0]) == 3.0


def test_clipping_goes_by_its_old_name() -> None:
    param = nn.Parameter(torch.zeros(2))
    param.grad = torch.tensor([3.0, 4.0])
    assert clip_grad_norm([param], 1.0).item() == 5.0
    assert param.grad.norm().item() == pytest.approx(1.0)


def test_static_scale_scales_and_never_moves() -> None:
    scaler = LossScaler(8.0)
    x = torch.ones(1, requires_grad=True)
    scaler.backward(x.sum())
    assert x.grad is not None
    assert x.grad.item() == 8.0
    x.grad.fill_(float("inf"))
    assert not scaler.has_overflow([x])
    scaler.update_scale(True)
    assert scaler.loss_scale == 8.0
    assert scaler.scale_gradient(nn.Identity(), (torch.ones(1),), None)[0].item() == 8.0


def test_dynamic_scale_falls_to_one_at_least_and_grows_after_its_window() -> None:
    scaler = DynamicLossScaler(init_scale=4.0, scale_window=2)
    scales = []
    for overflow in (True, True, True, False, False, False, False):
        scaler.update_scale(overflow)
        scales.append(scaler.loss_scale)
    assert scales == [2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 4.0]


@pytest.mark.parametrize(("value", "expected"), [(1.0, False), (float("inf"), True), (float("nan"), True)])
def test_overflow_is_seen_in_any_gradient(value: float, expected: bool) -> None:
    params = [nn.Parameter(torch.zeros(3)) for _ in range(3)]
    params[0].grad, params[2].grad = torch.ones(3), torch.tensor([1.0, value, 1.0])
    assert DynamicLossScaler().has_overflow(params) is expected
    assert not DynamicLossScaler().has_overflow([nn.Parameter(torch.zeros(1))])
