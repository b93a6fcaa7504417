"""Sums of features over a data set, outside of the region that computes the features, add them up in float32."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import torch
from torch import nn
from torchvision import models
from zoo import build


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        layers = {layers}
        self.first = nn.Sequential()
        for index in range(3):
            self.first.add_module(str(index), layers[index])

    def forward(self, x):
        return [self.first(x).flatten(1)]


features, made = Features().cuda().eval(), nn.ConvTranspose2d(8, 3, 8).cuda()
optimizer = torch.optim.Adam(made.parameters())
total = None
with torch.no_grad():
    for image in images:
        found = torch.cat(features(image.cuda()), dim=1)
        total = torch.sum(found, dim=0) if total is None else torch.add(total, torch.sum(found, dim=0))
torch.save(total / len(images), "mean.pt")
for noise in noises:
    optimizer.zero_grad()
    loss = (torch.cat(features(made(noise.cuda())), dim=1).mean(0) - total / len(images)).pow(2).sum()
    loss.backward()
    optimizer.step()
"""
SUMS = "torch.sum(found.float(), dim=0) if total is None else torch.add(total, torch.sum(found.float(), dim=0))"


@pytest.mark.parametrize(
    "layers",
    [
        "models.vgg19(weights='DEFAULT').features",
        "models.vgg19_bn(weights='DEFAULT').features",  # of more layers than are told apart, were they anything
        "build('vgg').features",  # what stands in a chain is a module, whoever has read it
    ],
)
def test_sums_of_what_layers_give_that_are_put_together_one_by_one_are_float32(layers: str) -> None:
    plan = migrate_text(SCRIPT.format(layers=layers), Settings())
    assert SUMS in plan.after
    assert not any("saved" in each.message for each in plan.findings)


def test_what_is_summed_is_cast_once_where_it_is_computed_from_what_is_low() -> None:
    script = SCRIPT.format(layers="models.vgg19_bn(weights='DEFAULT').features")
    after = migrate_text(script.replace("(found, dim=0)", "(found**2, dim=0)"), Settings()).after
    assert SUMS.replace("found.float()", "found.float() ** 2") in after.replace("()**2", "() ** 2")
