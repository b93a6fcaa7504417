"""Products without any weights, of what loaders and constants bring, are float32: rounding is all they would get."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

DATA = "a product of data alone, without any weights, which half precision rounds and nothing else"
OFF = 'with torch.amp.autocast(device_type="cuda", enabled=False):\n'
SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.codes = nn.Parameter(torch.randn(8, 3))
        self.register_buffer("basis", torch.randn(3, 3))
        self.register_buffer("seen", torch.zeros(8, 3))

    def forward(self, points):
{forward}


def turn(sample):
    angle = torch.rand(1)
    turned = torch.tensor([[torch.cos(angle), 0, 0], [0, 1, 0], [0, 0, 1]]).to(sample["points"].device)
    sample["points"] = sample["points"] @ turned
    return sample


net = Points().cuda()
optimizer = torch.optim.Adam(net.parameters())
for sample in loader:
    sample = {{name: value.cuda() for name, value in sample.items()}}
    points, goal = sample["points"], sample["goal"]
{computed}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = "return self.body(points)"
LOSS = "loss = (net(points) - goal).abs().mean()"


def migrated(forward: str = PLAIN, computed: str = LOSS) -> tuple[str, list[str]]:
    text = SCRIPT.format(forward=indent(forward, " " * 8), computed=indent(computed, " " * 4))
    plan = migrate_text(text, Settings())
    assert "GradScaler" in plan.after
    return plan.after, [each.message.partition(": ")[0] for each in plan.findings if each.message.endswith(DATA)]


@pytest.mark.parametrize(
    ("forward", "last"),
    [
        ("points = points @ self.basis\nreturn self.body(points)", "points = "),
        (
            'at = torch.arange(8.0, device="cuda")\n'
            'rows = torch.einsum("i,j->ij", at, self.basis[0])\n'
            "return self.body(points) + rows[0]",
            "rows",
        ),
        ("near = points @ points.mean(0).T\nreturn self.body(points) * near[:, None]", "near"),
        ("image = F.conv2d(points[None, None], self.basis[None, None])\nreturn self.body(points) + image.mean()", "im"),
    ],
)
def test_a_product_in_a_model_of_what_it_is_given_is_float32(forward: str, last: str) -> None:
    after, told = migrated(forward)
    assert f"        {OFF}            {last}" in after
    assert told == ["kept in float32"]


def test_an_augmentation_in_a_branch_that_a_region_goes_round_is_float32() -> None:
    turned = LOSS.replace("points", 'sample["points"]')
    computed = f"if several:\n    sample = turn(sample)\n    {turned}\nelse:\n    {LOSS}"
    after, told = migrated(computed=computed)
    assert f'    {OFF}        sample["points"] = sample["points"].float() @ turned\n' in after
    assert told == ["kept in float32"]


@pytest.mark.parametrize(
    "forward",
    [
        "return points @ self.codes.T @ self.codes + self.body(points)",
        "with torch.no_grad():\n    codes = self.codes / 2\nreturn self.body(points) + (points @ codes.T).sum()",
        "return self.body(points) + (points @ self.codes.detach().T).sum()",
        "query = self.body(points)\nreturn (query @ goal.T).softmax(-1) @ points + query",
        "return self.body(points) + (points @ read_elsewhere(points).T).sum()",
        "with torch.no_grad():\n    near = self.body(points)\nreturn self.body(points) + (near @ points.T).mean()",
    ],
)
def test_a_product_with_weights_or_with_what_comes_of_them_stays(forward: str) -> None:
    assert migrated(forward)[1] == []


def test_what_cannot_stand_apart_from_a_layer_is_told() -> None:
    after, told = migrated("return self.body(points @ self.basis)")
    assert OFF not in after
    assert told == ["may overflow, or round, in half precision"]


def test_what_a_function_of_another_package_makes_of_data_is_data() -> None:
    forward = "return self.body(points) + (Batch(points).points @ self.basis).sum()"
    text = SCRIPT.format(forward=indent(forward, " " * 8), computed=indent(LOSS, " " * 4))
    told = [each.message for each in migrate_text(f"from graphs import Batch\n{text}", Settings()).findings]
    assert f"may overflow, or round, in half precision: {DATA}" in told


UNROLLED = """\
found, squares = torch.zeros_like(points), points[:, :, None] * points[:, None]
for layer in self.layers:
    far = torch.matmul(squares, found[:, :, None])
    found = layer(far[..., 0] - points)
return found
"""


def test_what_a_model_goes_on_with_is_asked_by_its_name_whether_it_is_floating() -> None:
    text = SCRIPT.format(forward=indent(UNROLLED, " " * 8), computed=indent(LOSS, " " * 4))
    text = text.replace(
        "self.body =", "self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])\n        self.body ="
    )
    plan = migrate_text(text, Settings())
    asked = "(found.float() if found.is_floating_point() else found)[:, :, None]"
    assert f"            {OFF}                far = torch.matmul(squares, {asked})\n" in plan.after
    assert not [each.message for each in plan.findings if each.message.startswith("may overflow")]


BY_DIMENSION = """\
import torch
import torch.nn.functional as F
from torch import nn


def correlation(fixed, moved):
    window = torch.ones(1, 1, 5, 5, device=fixed.device)
    conv = getattr(F, {asked})
    sums = conv(fixed, window, padding=2)
    return (sums * moved).mean()


net = nn.Conv2d(1, 1, 3, padding=1).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.load("batches.pt"):
    loss = -correlation(x.cuda(), net(x.cuda()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "asked", ['"conv%dd" % (fixed.dim() - 2)', 'f"conv{fixed.dim() - 2}d"', '"conv{}d".format(fixed.dim() - 2)']
)
def test_a_function_by_the_number_of_its_dimensions_is_one_of_three(asked: str) -> None:
    after = migrate_text(BY_DIMENSION.format(asked=asked), Settings()).after
    assert f"{OFF}        sums = conv(fixed, window, padding=2)\n" in after
