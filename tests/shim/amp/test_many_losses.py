"""Several models, optimizers and losses, with an overflow planted in one of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import pytest
import torch
from amp_shim import amp
from amp_shim.optimizers import FusedSGD
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

LEVELS = ("O0", "O1", "O2", "O3")
SCALES = (4.0, 16.0)


class Weights(nn.Module):
    """One float and one half weight, both used."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight0 = nn.Parameter(value + torch.arange(2.0))
        self.weight1 = nn.Parameter(1.0 + value + torch.arange(2.0).half())

    def forward(self, x: Tensor) -> Tensor:
        return ((x * self.weight0.float()) * self.weight1.float()).sum()


@dataclass(frozen=True)
class Poison:
    """An inf written into one gradient, inside the block of one loss at one iteration."""

    iteration: int
    loss: int
    name: str  # weight0 is float, weight1 half


@dataclass(frozen=True)
class Layout:
    """Which models feed each loss, which models each optimizer owns, which optimizers each loss names."""

    losses: tuple[tuple[int, ...], ...]
    owners: tuple[tuple[int, ...], ...]
    listed: tuple[tuple[int, ...], ...]


LAYOUTS = {
    "two models, one optimizer": Layout(((0,), (1,)), ((0, 1),), ((0,), (0,))),
    "shared model, one optimizer": Layout(((0, 2), (1, 2)), ((0, 1, 2),), ((0,), (0,))),
    "two models, two optimizers": Layout(((0,), (1,)), ((0,), (1,)), ((0,), (1,))),
    "shared model, two optimizers": Layout(((0, 2), (1, 2)), ((0, 2), (1,)), ((0,), (0, 1))),
}


def run(
    layout: Layout, level: str | None, how: str, scalers: int, poison: Poison | None, kind: type[Optimizer] = SGD
) -> list[Tensor]:
    """Four iterations under amp, or without it where `level` is None; then the poisoned step is left out by hand."""
    x = torch.full((2,), 2.0**-3)
    models = [Weights(float(i + 1)) for i in range(1 + max(i for owned in layout.owners for i in owned))]
    if level is None:
        for model in models:
            model.float()
    owned_by = [[p for i in owned for p in models[i].parameters()] for owned in layout.owners]
    optimizers: list[Optimizer] = [kind(params, lr=2.0**-3) for params in owned_by]  # type: ignore[call-arg]
    if level is not None:
        amp._amp_state.allow_incoming_model_not_fp32 = True
        amp.initialize(
            models, optimizers, opt_level=level, verbosity=0, cast_model_type=False, loss_scale="dynamic",
            num_losses=scalers,
        )  # fmt: skip
        for scaler, scale in zip(amp._amp_state.loss_scalers, SCALES, strict=False):
            scaler._loss_scale = scale
    for iteration in range(4):
        zero(how, models, optimizers)
        skipped: set[int] = set()
        for index, fed in enumerate(layout.losses):
            loss = torch.stack([models[i](x) for i in fed]).sum()
            hit = poison is not None and (poison.iteration, poison.loss) == (iteration, index)
            if level is None:
                loss.backward()
                skipped |= set(layout.listed[index]) if hit else set()
                continue
            named = [optimizers[i] for i in layout.listed[index]]
            with amp.scale_loss(loss, named, loss_id=min(index, scalers - 1)) as scaled_loss:
                scaled_loss.backward()
                if hit and poison is not None:
                    grad = getattr(models[fed[0]], poison.name).grad
                    grad[0] = float("inf")
        for i, optimizer in enumerate(optimizers):
            if i not in skipped:
                optimizer.step()
    return [param.detach().float() for model in models for param in model.parameters()]


def zero(how: str, models: list[Weights], optimizers: list[Optimizer]) -> None:
    for optimizer in optimizers:
        if how == "optimizer":
            optimizer.zero_grad()
    for model in models:
        if how == "model":
            model.zero_grad()
        elif how == "none":
            for param in model.parameters():
                param.grad = None


POISONS = [None, *(Poison(*where) for where in product((0, 1), (0, 1), ("weight0", "weight1")))]


@pytest.mark.parametrize("poison", POISONS, ids=str)
@pytest.mark.parametrize(("how", "scalers"), [("none", 1), ("model", 2), ("optimizer", 2)])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_the_named_optimizers_skip_and_the_rest_trains_as_without_amp(
    layout: str, level: str, how: str, scalers: int, poison: Poison | None
) -> None:
    found = run(LAYOUTS[layout], level, how, scalers, poison)
    expected = run(LAYOUTS[layout], None, how, scalers, poison)
    for param, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(param, reference, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("poison", [None, Poison(0, 1, "weight1"), Poison(1, 0, "weight0")], ids=str)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fused_sgd_skips_and_trains_alike(layout: str, level: str, poison: Poison | None) -> None:
    found = run(LAYOUTS[layout], level, "optimizer", 2, poison, FusedSGD)
    expected = run(LAYOUTS[layout], None, "optimizer", 2, poison)
    for param, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(param, reference, rtol=4e-3, atol=4e-3)
