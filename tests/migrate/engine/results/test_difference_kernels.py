"""A convolution by constants of both signs subtracts what half precision has rounded: it is float32, or told."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TEXT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Slopes(nn.Module):
    def __init__(self):
        super().__init__()
        kernel = {kernel}
        {kept}

    def forward(self, x):
        return {taken}


model, slopes = nn.Conv2d(1, 1, 3, padding=1).cuda(), Slopes().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.l1_loss(slopes(model(x.cuda())), {target})
    loss.backward()
    optimizer.step()
"""
KEPT = "kept in float32: "
TOLD = "may overflow, or round, in half precision: a kernel of constants takes differences of what is rounded for it"
SOBEL = "torch.tensor([[[[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]]])"
BUFFER = 'self.register_buffer("kernel", kernel)'
PLAIN = "F.conv2d(x, self.kernel)"
OF_TARGET = "slopes(y.cuda())"


def told(kernel: str = SOBEL, kept: str = BUFFER, taken: str = PLAIN, target: str = OF_TARGET) -> list[str]:
    plan = migrate_text(TEXT.format(kernel=kernel, kept=kept, taken=taken, target=target), Settings())
    assert "autocast(" in plan.after
    return [each.message for each in plan.findings if each.code == "AMP504"]


@pytest.mark.parametrize(
    ("kernel", "kept", "taken"),
    [
        (SOBEL, BUFFER, PLAIN),
        ("torch.FloatTensor([[-1, 0, 1]]).unsqueeze(0).unsqueeze(0) / 8", BUFFER, PLAIN),
        ("torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]]).float()[None, None]", "self.kernel = kernel.cuda()", PLAIN),
        (SOBEL, "self.kernel = torch.cat([kernel, kernel.transpose(2, 3)])", "F.conv2d(x, self.kernel.to(x.device))"),
    ],
)
def test_a_filter_that_takes_differences_of_a_target_is_float32(kernel: str, kept: str, taken: str) -> None:
    assert told(kernel, kept, taken) == [KEPT + TOLD]


@pytest.mark.parametrize(
    ("kernel", "kept", "taken"),
    [
        (SOBEL, "self.kernel = nn.Parameter(data=kernel, requires_grad=False)", PLAIN),
        (
            SOBEL,
            "self.conv = nn.Conv2d(1, 1, 3)\n        self.conv.weight = nn.Parameter(kernel, requires_grad=False)",
            "self.conv(x)",
        ),
    ],
)
def test_one_whose_kernel_may_be_weights_is_told(kernel: str, kept: str, taken: str) -> None:
    assert told(kernel, kept, taken) == [TOLD]


@pytest.mark.parametrize(
    ("kernel", "kept", "taken", "target"),
    [
        (SOBEL, BUFFER, PLAIN, "y.cuda()"),  # of what the network gives: that is rounded as it is
        ("torch.tensor([[[[0.25, 0.5, 0.25]]]])", "self.kernel = kernel.cuda()", PLAIN, OF_TARGET),  # a mean
        (SOBEL, "self.kernel = nn.Parameter(kernel)", PLAIN, OF_TARGET),  # is trained
        (SOBEL, BUFFER, "x + 0 * self.kernel.sum()", OF_TARGET),
        ("torch.randn(1, 1, 3, 3)", "self.kernel = kernel.cuda()", PLAIN, OF_TARGET),
    ],
)
def test_other_kernels_and_other_images_are_not(kernel: str, kept: str, taken: str, target: str) -> None:
    assert not any(each.endswith(TOLD) for each in told(kernel, kept, taken, target))
