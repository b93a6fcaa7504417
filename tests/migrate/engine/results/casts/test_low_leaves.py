"""What is trained is made of what a region gave: it is float32 from the start, as a scaler takes no other gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]

SCRIPT = """\
    from torch.autograd import Variable


    def fit(net, image, steps):
        with torch.no_grad():
            features = net.encode(image)
        {made}
        optimizer = torch.optim.Adam([features], lr=0.1)
        for _ in range(steps):
            loss = nn.functional.mse_loss(net.decode(features), image)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

        def encode(self, image):
            return self.encoder(image)

        def decode(self, features):
            return self.decoder(features)


    fit(Net().cuda(), torch.rand(1, 3, 16, 16).cuda(), 100)
"""


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("features = Variable(features, requires_grad=True)", "Variable(features.float(), requires_grad=True)"),
        ("features = nn.Parameter(features)", "nn.Parameter(features.float())"),
        ("features = features.detach().requires_grad_()", "features.float().detach().requires_grad_()"),
        ("features = features.clone().requires_grad_(True)", "features.float().clone().requires_grad_(True)"),
    ],
)
def test_a_leaf_of_a_region_is_float32(migrate: Check, made: str, after: str) -> None:
    assert f"    features = {after}\n" in migrate(SCRIPT.format(made=made)).after


@pytest.mark.parametrize("made", ["features.requires_grad_()", "features.requires_grad = True"])
def test_one_that_is_what_a_pass_gave_comes_of_a_pass_in_float32(migrate: Check, made: str) -> None:
    after = migrate(SCRIPT.format(made=made)).after
    assert f"    with torch.no_grad():\n        features = net.encode(image)\n    {made}\n" in after
    assert "scaler.step(optimizer)" in after


@pytest.mark.parametrize(
    "made",
    [
        "features = Variable(features.float(), requires_grad=True)",
        "features = torch.zeros_like(features, dtype=torch.float32, requires_grad=True)",
    ],
)
def test_one_that_is_float32_already_is_left_alone(migrate: Check, made: str) -> None:
    plan = migrate(SCRIPT.format(made=made))
    assert f"    {made}\n" in plan.after
    assert "scaler.step(optimizer)" in plan.after


def test_a_scaler_refuses_gradients_in_half_precision() -> None:
    leaf = torch.zeros(2, dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], 0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(leaf.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(optimizer)
