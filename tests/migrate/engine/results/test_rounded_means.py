"""A variance as a difference of means is as rough as the roughest of them: all are float32, or it is told."""

from __future__ import annotations

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings
from torch.nn import functional as F

CANCELLED = "E[x*y] - E[x]*E[y] of rounded means, which may come to zero or below it"
SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F


def itself(x):
    return x


def variance(x, window):
    mean = {mean}
    return {whole} - mean.pow(2)


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.full((1, 1, 5, 5), 1 / 25.0).cuda()

    def forward(self, x):
        window = {window}
        return variance(x, window).mean()


net = nn.Conv2d(1, 1, 3, padding=1).cuda()
criterion = Contrast()
optimizer = torch.optim.Adam(net.parameters())
for x in loader:
    optimizer.zero_grad()
    loss = criterion(net(x.cuda()))
    loss.backward()
    optimizer.step()
"""
MEAN, WHOLE = "F.conv2d(x, window)", "F.conv2d(x * x, window)"


def migrated(mean: str = MEAN, whole: str = WHOLE, window: str = "self.window") -> tuple[str, list[str]]:
    plan = migrate_text(SCRIPT.format(mean=mean, whole=whole, window=window), Settings())
    assert "GradScaler" in plan.after
    found = (each.message for each in plan.findings if each.message.endswith(CANCELLED))
    return plan.after, sorted({each.partition(": ")[0] for each in found})


def test_what_is_left_of_a_flat_picture_is_what_means_and_weights_are_rounded_by() -> None:
    x, window = torch.full((1, 1, 9, 9), 0.7), torch.full((1, 1, 5, 5), 1 / 25.0)

    def variance(x: torch.Tensor, window: torch.Tensor) -> float:
        return (F.conv2d(x * x, window) - F.conv2d(x, window).pow(2)).abs().max().item()

    assert variance(x, window) < 1e-6
    assert variance(x, window.half().float()) > 1e-5


@pytest.mark.parametrize(
    ("mean", "whole", "kept"),
    [
        (MEAN, WHOLE, ("F.conv2d(x.float(), window)", "F.conv2d(x.float() * x.float(), window)")),
        (
            "F.avg_pool2d(x, 5)",
            "F.avg_pool2d(x * x, 5)",
            ("F.avg_pool2d(x.float(), 5)", "F.avg_pool2d(x.float() * x.float(), 5)"),
        ),
    ],
)
def test_the_means_and_their_difference_are_float32(mean: str, whole: str, kept: tuple[str, str]) -> None:
    after, told = migrated(mean, whole)
    off = 'with torch.amp.autocast(device_type="cuda", enabled=False):'
    assert f"    {off}\n        mean = {kept[0]}\n        return {kept[1]} - mean.pow(2)\n" in after
    assert told == ["kept in float32"]


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        ("self.window.type_as(x)", "self.window.type_as(x.float())"),
        ("self.window.to(x.dtype)", "self.window.to(x.float().dtype)"),
        ("self.window.cuda(x.get_device()).type(x.dtype)", "self.window.cuda(x.get_device()).type(x.float().dtype)"),
        ("self.window.to(x.device)", "self.window.to(x.device)"),
    ],
)
def test_weights_are_not_rounded_for_what_they_are_multiplied_with(window: str, kept: str) -> None:
    after, told = migrated(window=window)
    assert f"        window = {kept}\n" in after
    assert told == ["kept in float32"]


def test_where_one_mean_cannot_be_float32_none_is_and_the_difference_is_told() -> None:
    after, told = migrated(whole="F.conv2d(x * itself(x), window)")
    assert "mean = F.conv2d(x, window)" in after
    assert told == ["may overflow, or round, in half precision"]


def test_what_is_float32_already_stays() -> None:
    after, told = migrated("F.avg_pool2d(x.float(), 5)", "F.avg_pool2d(x.float() ** 2, 5)")
    assert "enabled=False" not in after
    assert told == []


LIKE_DATA = """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, x, residual):
        return (x + self.layer(x)) / 2 if residual else x


model, window = Net().cuda(), torch.rand(1, 3, 3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.load("data.pt"):
    optimizer.zero_grad()
    a, y = model(x, residual), y.cuda()
    window = window.type_as(a)
    mean = F.conv2d(y, window)
    loss = (F.conv2d(y * y, window) - mean * mean).mean() * model.layer(x).mean()
    loss.backward()
    optimizer.step()
"""


def test_what_has_the_dtype_of_data_is_asked_whether_it_floats() -> None:
    after = migrate_text(LIKE_DATA, Settings()).after
    assert "mean = F.conv2d(y, window.float() if window.is_floating_point() else window)\n" in after
