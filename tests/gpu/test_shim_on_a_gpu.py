"""The shim where it is meant to be used: casts, loss scale, master weights and optimizers on the device."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from amp_shim import amp
from amp_shim.optimizers import FusedAdam, FusedLAMB
from amp_shim.policy import NATIVE_CUDA, autocast
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

HALF, FLOAT = torch.float16, torch.float32


def network(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    return nn.Sequential(*layers).to(device)


def batch(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(16, 3, 8, 8, generator=generator)
    return images.to(device), torch.arange(16, device=device) % 10


def step(model: nn.Module, optimizer: Optimizer, device: str, factor: float = 1.0) -> float:
    images, labels = batch(device)
    loss = nn.functional.cross_entropy(model(images).float(), labels) * factor
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_every_level_learns(device: str, level: str) -> None:
    model = network(device)
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    losses = [step(model, optimizer, device) for _ in range(15)]
    assert losses[-1] < 0.5 * losses[0]
    assert all(parameter.device.type == device for parameter in amp.master_params(optimizer))


def test_levels_have_the_dtypes_of_apex(device: str) -> None:
    model = network(device)
    optimizer = SGD(model.parameters(), lr=0.05)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    assert (model[0].weight.dtype, model[1].weight.dtype) == (HALF, FLOAT)
    step(model, optimizer, device)
    assert {parameter.dtype for parameter in amp.master_params(optimizer)} == {FLOAT}


def test_an_overflow_leaves_the_weights_and_halves_the_scale(device: str) -> None:
    model = network(device)
    optimizer = SGD(model.parameters(), lr=0.05)
    amp.initialize(model, optimizer, opt_level="O1", loss_scale="dynamic", verbosity=0)
    before = [parameter.clone() for parameter in model.parameters()]
    scale = amp.state_dict()["loss_scaler0"]["loss_scale"]
    step(model, optimizer, device, factor=float("inf"))
    assert all(map(torch.equal, model.parameters(), before))
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == scale / 2


def test_fused_adam_is_torch_s(device: str) -> None:
    ours, theirs = network(device), network(device)
    options: dict[str, Any] = {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1}
    for model, optimizer in (
        (ours, FusedAdam(ours.parameters(), **options)),
        (theirs, AdamW(theirs.parameters(), **options)),
    ):
        images, labels = batch(device)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_lamb_learns(device: str) -> None:
    model = network(device)
    optimizer = FusedLAMB(model.parameters(), lr=0.05)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    losses = [step(model, optimizer, device) for _ in range(15)]
    assert losses[-1] < losses[0]


def test_policies_hold_in_their_region_and_end_with_it(device: str) -> None:
    x = torch.ones(4, 4, device=device)
    with autocast(NATIVE_CUDA.with_half("softmax"), device, dtype=HALF):
        assert (x @ x).softmax(-1).dtype == HALF
    with autocast(NATIVE_CUDA, device, dtype=HALF):
        assert ((x @ x).dtype, (x @ x).softmax(-1).dtype) == (HALF, FLOAT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_scaling_waits_for_the_gpu_no_oftener_than_native_code() -> None:
    """Counted by PyTorch, which warns of every synchronising call."""

    def waits(level: str | None) -> int:
        model = network("cuda")
        optimizer = SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cuda", enabled=level is None)
        if level is not None:
            amp.initialize(model, optimizer, opt_level=level, patch_torch_functions=False, verbosity=0)
        images, labels = batch("cuda")
        for count in (False, True):  # the first step fills caches
            torch.cuda.set_sync_debug_mode("warn" if count else "default")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with torch.autocast("cuda", dtype=HALF):
                    loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                if level is None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                    optimizer.step()
        torch.cuda.set_sync_debug_mode("default")
        return len([each for each in caught if "synchroniz" in str(each.message)])

    native = waits(None)
    assert native >= 1
    assert waits("O1") <= native
