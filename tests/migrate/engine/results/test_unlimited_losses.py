"""A critic that nothing limits leaves float16's range, and its loss is told where it goes backward."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.flow.events import WITHOUT_LIMIT
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import torch
from torch import nn


class Clip:
    def __call__(self, module):
        if hasattr(module, "weight"):
            module.weight.data.clamp_(-1, 1)


G = nn.Linear(8, 64).cuda()
D = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), {last}).cuda()
g_optimizer = torch.optim.Adam(G.parameters())
d_optimizer = torch.optim.Adam(D.parameters())
for x in torch.load("digits.pt"):
    x = x.cuda().float()
    fake, real = D(G(torch.rand(len(x), 8).cuda()).detach()), D(x)
    d_loss = {loss}
    d_optimizer.zero_grad()
    d_loss.backward()
{beside}
    d_optimizer.step()
    g_loss = -D(G(torch.rand(len(x), 8).cuda())).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
"""
SCORE, DISTANCE = "nn.Linear(128, 1)", "fake.mean() - real.mean()"


def told(loss: str = DISTANCE, last: str = SCORE, beside: str = "", dtype: Dtype = Dtype.FP16) -> list[int]:
    """The lines at which a loss without a limit is told."""
    plan = migrate_text(TEXT.format(loss=loss, last=last, beside=beside), Settings(dtype=dtype))
    assert "autocast" in plan.after
    return [each.line for each in plan.findings if WITHOUT_LIMIT in each.message]


@pytest.mark.parametrize(
    "loss",
    [
        DISTANCE,
        "torch.mean(fake) - torch.mean(real)",
        "-torch.mean(real) + torch.mean(fake)",
        "-(real.mean() - fake.mean())",
        "(fake - real).mean() * 0.5",
        "(real.mean() - fake.mean()) / -2",
    ],
)
def test_a_difference_of_scores(loss: str) -> None:
    assert told(loss) == [20]


@pytest.mark.parametrize(
    "loss",
    [
        f"{DISTANCE} + 0.001 * (real ** 2).mean()",
        "fake.mean() + real.mean()",
        "torch.relu(1 - real).mean() + torch.relu(1 + fake).mean()",
        "nn.functional.softplus(fake - real).mean()",
        "((fake - 1) ** 2).mean() + (real ** 2).mean()",
    ],
)
def test_a_loss_that_has_a_least_value_or_is_no_difference(loss: str) -> None:
    assert told(loss) == []


@pytest.mark.parametrize(
    "beside",
    [
        "    for p in D.parameters():\n        p.data.clamp_(-0.01, 0.01)",
        "    for p in D.parameters():\n        p.data = p.data.clamp(-0.01, 0.01)",
        "    with torch.no_grad():\n        for p in D.parameters():\n            p.clamp_(-0.01, 0.01)",
        "    D.apply(Clip())",
        "    penalty = ((D(x).norm() - 1) ** 2).mean()\n    penalty.backward()",
    ],
)
def test_weights_within_limits(beside: str) -> None:
    assert told(beside=beside) == []


@pytest.mark.parametrize(
    "last", [f"nn.utils.spectral_norm({SCORE})", f"nn.utils.parametrizations.spectral_norm({SCORE})"]
)
def test_layers_within_limits(last: str) -> None:
    assert told(last=last) == []


@pytest.mark.parametrize("last", [f"{SCORE}, nn.Sigmoid()", f"{SCORE}, nn.Tanh()"])
def test_scores_within_limits(last: str) -> None:
    assert told(last=last) == []


def test_bfloat16_has_the_range() -> None:
    assert told(dtype=Dtype.BF16) == []


OF_A_MODE = """\
import torch
from torch import nn


class Criterion(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.loss = nn.MSELoss()

    def forward(self, prediction, is_real):
        if self.mode in ("squares", "another"):
            return self.loss(prediction, torch.full_like(prediction, float(is_real)))
        elif self.mode == "scores":
            return -prediction.mean() if is_real else prediction.mean()


criterion = Criterion({mode}).cuda()
D = nn.Linear(64, 1).cuda()
optimizer = torch.optim.Adam(D.parameters())
for real, fake in torch.load("digits.pt"):
    loss = criterion(D(real.cuda()), True) + criterion(D(fake.cuda()), False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("mode", "lines"), [('"squares"', []), ('"scores"', [24]), ("input()", [24])])
def test_a_module_computes_what_its_mode_says(mode: str, lines: list[int]) -> None:
    findings = migrate_text(OF_A_MODE.format(mode=mode), Settings()).findings
    assert [each.line for each in findings if WITHOUT_LIMIT in each.message] == lines
