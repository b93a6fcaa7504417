"""Parameter groups that join an optimizer during training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from amp_shim import amp
from torch import Tensor, nn
from torch.optim import SGD


class Weights(nn.Module):
    """One float and one half weight, both used."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight0 = nn.Parameter(value + torch.arange(2.0))
        self.weight1 = nn.Parameter(1.0 + value + torch.arange(2.0).half())

    def forward(self, x: Tensor) -> Tensor:
        return ((x * self.weight0.float()) * self.weight1.float()).sum()


def zero(how: str, models: list[nn.Module], optimizer: SGD) -> None:
    if how == "optimizer":
        optimizer.zero_grad()
    else:
        for model in models:
            if how == "model":
                model.zero_grad()
            else:
                for param in model.parameters():
                    param.grad = None


def train(use_amp: dict[str, Any] | None, how: str, zero_before: bool, twice: bool) -> list[Tensor]:
    x = torch.full((2,), 2.0**-3)
    models: list[nn.Module] = [Weights(1.0), Weights(2.0)]
    if use_amp is None:
        for model in models:
            model.float()
    optimizer = SGD(models[0].parameters(), lr=2.0**-3, momentum=0.5)
    if use_amp is not None:
        amp._amp_state.allow_incoming_model_not_fp32 = True
        amp.initialize(models, optimizer, verbosity=0, cast_model_type=False, loss_scale=4.0, **use_amp)

    def backward() -> None:
        loss = models[0](x) + models[1](x)
        for repeat in range(2 if twice else 1):
            if use_amp is None:
                loss.backward(retain_graph=repeat == 0)
            else:
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward(retain_graph=repeat == 0)

    backward()
    optimizer.step()
    if zero_before:
        zero(how, models, optimizer)
    optimizer.add_param_group({"params": models[1].parameters(), "lr": 2.0**-2, "momentum": 0.25})
    if not zero_before:
        zero(how, models, optimizer)
    for _ in range(3):
        zero(how, models, optimizer)
        backward()
        optimizer.step()
    return [param.detach().float() for model in models for param in model.parameters()]


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("zero_before", [False, True])
@pytest.mark.parametrize("how", ["none", "model", "optimizer"])
@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_added_group_trains_like_plain_sgd(level: str, how: str, zero_before: bool, twice: bool) -> None:
    found = train({"opt_level": level}, how, zero_before, twice)
    expected = train(None, how, zero_before, twice)
    for param, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(param, reference, rtol=2e-3, atol=2e-3)


def test_added_half_parameters_get_masters() -> None:
    model, extra = nn.Linear(2, 2), nn.Linear(2, 2).half()
    optimizer = SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    optimizer.add_param_group({"params": extra.weight})
    assert {param.dtype for param in amp.master_params(optimizer)} == {torch.float32}
    assert extra.weight.dtype is torch.float16
