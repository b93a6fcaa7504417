"""What is trained is made of what a region gave: it is float32 from the start, as a scaler takes no other gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

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


MADE_LATER = """\
    class Wrapper(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net, self.head = net, None

        def head_of(self, hidden):
            if self.head is None:
                {made}
            return self.head

        def forward(self, x):
            hidden = self.net(x)
            return self.head_of(hidden)(hidden)


    def fit(batches):
        model = Wrapper(nn.Linear(8, 16)).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in batches:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


    fit([(torch.rand(4, 8), torch.rand(4, 2))])
"""


@pytest.mark.parametrize(
    ("made", "after"),
    [
        ("self.head = nn.Linear(16, 2).to(hidden)", "nn.Linear(16, 2).to(hidden.float())"),
        (
            "self.head = nn.Linear(16, 2).to(device=hidden.device, dtype=hidden.dtype)",
            "nn.Linear(16, 2).to(device=hidden.device, dtype=hidden.float().dtype)",
        ),
        (
            "self.head = nn.Linear(16, 2).cuda().type(hidden.dtype)",
            "nn.Linear(16, 2).cuda().type(hidden.float().dtype)",
        ),
        (
            "self.head = nn.Linear(16, 2).cuda()\n"
            "                self.head.weight = nn.Parameter(torch.zeros(2, 16, dtype=hidden.dtype).cuda())",
            "nn.Parameter(torch.zeros(2, 16, dtype=hidden.dtype).float().cuda())",
        ),
    ],
)
def test_weights_made_like_a_result_are_float32(migrate: Check, made: str, after: str) -> None:
    plan = migrate(MADE_LATER.format(made=made))
    assert f" = {after}\n" in plan.after
    assert "scaler.step(optimizer)" in plan.after


def test_weights_of_a_dtype_with_a_name_leave_the_step(migrate: Check) -> None:
    made = "kind = hidden.dtype\n                self.head = nn.Linear(16, 2).cuda().to(kind)"
    plan = migrate(MADE_LATER.format(made=made))
    assert not plan.changed
    (left,) = plan.findings
    assert "in half precision already: weights take the precision of what a region gives (line" in left.message
    assert left.hint is not None
    assert "move the module to the device alone" in left.hint


@pytest.mark.parametrize("like", ["hidden.device", "hidden.float()", "self.net.weight", "torch.float32"])
def test_weights_that_stay_float32_are_left_alone(migrate: Check, like: str) -> None:
    made = f"self.head = nn.Linear(16, 2).cuda().to({like})"
    plan = migrate(MADE_LATER.format(made=made))
    assert f"{made}\n" in plan.after
    assert "scaler.step(optimizer)" in plan.after


def test_what_may_be_a_tensor_takes_the_precision_of_a_result(migrate: Check) -> None:
    script = MADE_LATER.format(made="self.head = nn.Linear(16, 2).cuda()")
    script = script.replace("forward(self, x):", "forward(self, x, mask=None):")
    script = script.replace(
        "hidden = self.net(x)\n", "hidden = self.net(x)\n            hidden = hidden * mask.to(hidden)\n"
    )
    script = script.replace("model(x.cuda())", "model(x.cuda(), x.mask)")
    after = migrate(script).after
    assert "hidden = hidden * mask.to(hidden)\n" in after
    assert "scaler.step(optimizer)" in after


def test_a_layer_gets_the_dtype_of_a_tensor() -> None:
    like = torch.zeros(1, dtype=torch.float16)
    assert nn.Linear(2, 2).to(like).weight.dtype == torch.float16
    assert nn.Linear(2, 2).to(like.float()).weight.dtype == torch.float32


def test_a_scaler_refuses_gradients_in_half_precision() -> None:
    leaf = torch.zeros(2, dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], 0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(leaf.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(optimizer)
