"""What a library's model is taken apart into, is known: Gram matrices of VGG's features are computed in float32."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings
from amp_migrate.tables.library_models import parts

TEXT = """\
import torch
import torch.nn.functional as F
import torchvision.models as models
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, x):
{forward}


def gram(y):
    b, c, h, w = y.size()
    f = y.view(b, c, h * w)
    return f.bmm(f.transpose(1, 2)) / (c * h * w)


net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 3, 3)).cuda()
features = Features().cuda()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for x, style in loader:
    optimizer.zero_grad()
    out = features(net(x.cuda()))
    loss = 0.0
    for a, b in zip(out, style):
        loss += F.mse_loss(gram(a), b)
    loss.backward()
    optimizer.step()
"""
KEPT = "kept in float32: may overflow, or round, in half precision: products of a matrix with itself"
WHOLE = "self.layers = models.vgg16(weights='DEFAULT').features"
TWO = "a = self.first(x)\nreturn [a, self.second(a)]"
EACH = "found = []\nfor {target} in {over}:\n    x = layer(x)\n    found.append(x)\nreturn found"


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        (WHOLE, "return [self.layers(x)]"),
        (WHOLE.replace(".vgg16", ".vgg.vgg11_bn") + "[:20].eval()", "return [self.layers(x)]"),
        (WHOLE.replace("vgg16", "efficientnet_b0"), "return [self.layers(x)]"),  # what a part gives is floating
        (WHOLE, EACH.format(target="i, layer", over="enumerate(self.layers)")),
        (WHOLE, EACH.format(target="layer", over="self.layers[:23]")),
        (WHOLE, EACH.format(target="layer", over="self.layers.children()")),
        (WHOLE, EACH.format(target="name, layer", over="self.layers._modules.items()")),
        ("layers = models.vgg19().features\nself.first, self.second = layers[:4], layers[4:9]", TWO),
        (
            "layers = list(models.vgg19().features)\n"
            "self.first, self.second = nn.Sequential(*layers[:4]), nn.Sequential(*layers[4:9])",
            TWO,
        ),
        (
            "layers = models.vgg16(pretrained=True).features\n"
            "self.first, self.second = nn.Sequential(), nn.Sequential()\n"
            "for i in range(4):\n    self.first.add_module(str(i), layers[i])\n"
            "for i in range(4, 9):\n    self.second.add_module(str(i), layers[i])",
            TWO,
        ),
    ],
)
def test_gram_matrices_of_parts_of_models_are_float32(init: str, forward: str) -> None:
    text = TEXT.format(init=indent(init, " " * 8), forward=indent(forward, " " * 8))
    plan = migrate_text(text, Settings())
    assert KEPT in [each.message for each in plan.findings]
    assert "return f.float().bmm(f.float().transpose(1, 2)) / (c * h * w)" in plan.after


def test_of_layers_that_are_not_known_they_are_where_they_are_floating() -> None:
    init = WHOLE.replace("vgg16", "efficientnet_b0") + "[:5]"
    text = TEXT.format(init=indent(init, " " * 8), forward=indent("return [self.layers(x)]", " " * 8))
    plan = migrate_text(text, Settings())
    assert KEPT in [each.message for each in plan.findings]
    cast = "(f.float() if f.is_floating_point() else f)"
    assert f"return {cast}.bmm({cast}.transpose(1, 2)) / (c * h * w)" in plan.after


@pytest.mark.parametrize(
    ("model", "depth", "weighted"), [("vgg11", 21, 8), ("vgg13_bn", 35, 10), ("vgg16", 31, 13), ("vgg19", 37, 16)]
)
def test_vgg_has_as_many_layers_as_its_name_says(model: str, depth: int, weighted: int) -> None:
    features, classifier = parts(f"torchvision.models.{model}").values()
    assert (len(features), features.count("Conv2d")) == (depth, weighted)
    assert features[-1] == "MaxPool2d"
    assert weighted + classifier.count("Linear") == int(model[3:5])
