"""Products of lengths, as areas of boxes are, are computed in float32: float16 ends at 256 by 256 pixels."""

from __future__ import annotations

from textwrap import indent

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

AREA = "a product of lengths, as an area is: that of 256 by 256 pixels is beyond float16's range"
SCRIPT = """\
import torch
from torch import nn
from torchvision.models.detection import fasterrcnn_resnet50_fpn


class Boxes(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)
        self.detector = fasterrcnn_resnet50_fpn()

    def forward(self, x):
        boxes = {boxes}
{computed}


net = Boxes().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in loader:
    optimizer.zero_grad()
    loss = net(x.cuda())
    loss.backward()
    optimizer.step()
"""


def script(computed: str, boxes: str = "self.head(x)") -> str:
    return SCRIPT.format(boxes=boxes, computed=indent(computed, " " * 8))


def told(text: str, settings: Settings | None = None) -> list[str]:
    plan = migrate_text(text, settings or Settings())
    assert "autocast(" in plan.after
    return [each.message.partition(": ")[0] for each in plan.findings if each.message.endswith(AREA)]


def test_such_a_product_is_infinite_in_float16() -> None:
    sides = torch.tensor([257.0, 256.0], dtype=torch.float16)
    assert (sides[0] * sides[1]).isinf()


@pytest.mark.parametrize(
    "computed",
    [
        "return ((boxes[:, 3] - boxes[:, 1]) * (boxes[:, 2] - boxes[:, 0])).sum()",
        "return abs((boxes[:, 3] - boxes[:, 1]) * (boxes[:, 2] - boxes[:, 0])).sum()",
        "x0, y0, x1, y1 = boxes.unbind(-1)\nreturn ((x1 - x0).clamp(min=0) * (y1 - y0).clamp(min=0)).sum()",
        "low, high = boxes[:, :2], torch.min(boxes[:, 2:], boxes[:, :2])\n"
        "wh = (high - low + 1).clamp(min=0)\nreturn (wh[:, 0] * wh[:, 1]).sum()",
        "d = boxes[:, None] - boxes\nreturn (d * d).sum(-1).mean()",
        "sides = boxes.sigmoid() * 448\nw, h = sides[:, 0] + sides[:, 1], sides[:, 2] + sides[:, 3]\n"
        "return (w * h).sum()",
        "both = torch.cat([boxes[:, :2], boxes[:, 2:].sigmoid() * 448], 1)\nw, h = both[:, 2], both[:, 3]\n"
        "return (w * h).sum()",
        "sides = 300 * boxes.tanh().abs()\nreturn (sides[:, 0] * sides[:, 1]).sum()",
        "sides = boxes.sigmoid() / 0.002\nw, h = torch.minimum(sides[:, 0], sides[:, 1]), sides[:, 2]\n"
        "return (w * h).sum()",
    ],
)
def test_a_product_of_lengths_is_kept_in_float32(computed: str) -> None:
    *_, last = computed.splitlines()
    after = migrate_text(script(computed), Settings()).after
    assert f'with torch.amp.autocast(device_type="cuda", enabled=False):\n            {last[:9]}' in after
    assert told(script(computed)) == ["kept in float32"]
    assert told(script(computed), Settings(dtype=Dtype.BF16)) == []  # bfloat16 has float32's range


@pytest.mark.parametrize(
    "computed",
    [
        "a, b = boxes.chunk(2, -1)\nreturn (a * b).sum()",
        "return ((1 - boxes[:, 0]) * (1 - boxes[:, 1])).sum()",
        "return ((boxes[:, 3] - boxes[:, 1]) * 0.5).sum()",
        "sides = boxes.sigmoid() * 255\nreturn (sides[:, 0] * sides[:, 1]).sum()",
        "sides = boxes.sigmoid() * 448 / 448\nreturn (sides[:, 0] * sides[:, 1]).sum()",
        "w, h = 1 / (boxes[:, 3] - boxes[:, 1]), 1 / (boxes[:, 2] - boxes[:, 0])\nreturn (w * h).sum()",
        "sides = boxes.sigmoid() * 448\nreturn (sides[:, 0] / sides[:, 1] * sides[:, 2]).sum()",
        "p = boxes.sigmoid()\nreturn ((p[:, 3] - p[:, 1]) * (p[:, 2] - p[:, 0])).sum()",
        "boxes = boxes.float()\nreturn ((boxes[:, 3] - boxes[:, 1]) * (boxes[:, 2] - boxes[:, 0])).sum()",
        "return ((x[:, 3] - x[:, 1]) * (x[:, 2] - x[:, 0])).sum() + boxes.sum()",
    ],
)
def test_other_products_and_what_is_not_low_stay(computed: str) -> None:
    assert told(script(computed)) == []


@pytest.mark.parametrize(
    "boxes", ["self.detector.rpn(x, x, x)[0][0]", "self.detector.roi_heads.select_training_samples(x, x)[0][0]"]
)
def test_what_a_part_of_a_detector_gives_is_low(boxes: str) -> None:
    computed = "area = (boxes[:, 3] - boxes[:, 1]) * (boxes[:, 2] - boxes[:, 0])\nreturn area.sum()"
    assert told(script(computed, boxes)) == ["may overflow, or round, in half precision"]


@pytest.mark.parametrize(
    "computed",
    [
        "w, h = boxes[..., 2].exp(), boxes[..., 3].exp()\nx, y = boxes[..., 0], boxes[..., 1]\n"
        "return ((x + w - (x - w)) * (y + h - (y - h))).sum()",
        "xy, wh = boxes.split(2, -1)\nwh = wh.exp()\nd = xy + wh - (xy - wh)\nreturn (d[..., 0] * d[..., 1]).sum()",
        "a, b = boxes[..., 0].exp() - boxes[..., 1].exp(), boxes[..., 2] - boxes[..., 3]\nreturn (a * b).sum()",
    ],
)
def test_what_autocast_makes_float32_makes_its_area_float32(computed: str) -> None:
    text = script(computed, "self.head(x).view(-1, 4)")
    assert told(text) == []
    assert told(text.replace(".exp()", "")) == ["kept in float32"]


@pytest.mark.parametrize(
    ("given", "cast"),
    [
        ("size * size", "size.float() * size.float()"),
        ("torch.mul(size, size)", "torch.mul(size.float(), size.float())"),
    ],
)
def test_what_is_computed_with_what_floats_is_not_asked_whether_it_does(given: str, cast: str) -> None:
    """Data are anything: what a network gives less those are floating."""
    text = f"""\
import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.load("data.pt"):
    size = model(x.cuda()) - y
    loss = ({given} + 1e-6).sqrt().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    after = migrate_text(text, Settings()).after
    assert f"            loss = ({cast} + 1e-6).sqrt().mean()\n" in after
