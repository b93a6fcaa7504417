"""Code that casts what goes into weights by itself, as O2 and O3 want it: outside of a region it raises natively."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

PARTS = """\
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(8, 4)

    def encode(self, x):
        return self.encoder(x)

    def forward(self, x):
        return self.decoder(self.encode(x))

class Decoder:
    def __init__(self, model, fp16):
        self.model, self.fp16 = model, fp16

    def run(self, x):
        {cast}
        return self.model.decoder(self.model.encode(x))
"""
SCRIPT = """\
import argparse
import torch
{imports}
from parts import Decoder, Net

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters())
{prepared}
decoder = Decoder(model, args.fp16)

@torch.no_grad()
def validate(decoder):
    return {run}

for x, y in torch.load("data.pt"):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    {backward}
    optimizer.step()
print(validate(decoder))
"""
APEX = {
    "imports": "from apex import amp",
    "prepared": 'model, optimizer = amp.initialize(model, optimizer, enabled=args.fp16, opt_level="O2")',
    "backward": "with amp.scale_loss(loss, optimizer) as scaled_loss:\n        scaled_loss.backward()",
}
WITHOUT = {"imports": "", "prepared": "", "backward": "loss.backward()"}
BARE = "decoder.run(torch.randn(8, 8).cuda())"
HALVES = "x = x.half() if self.fp16 else x"


def _moved(folder: Path, cast: str, script: dict[str, str], run: str = BARE) -> tuple[bool, list[str]]:
    (folder / "parts.py").write_text(PARTS.format(cast=cast))
    (folder / "train.py").write_text(SCRIPT.format(**script, run=run))
    outcome = migrate_paths([folder], Settings())
    moved = any("scaler.step(optimizer)" in each.after for each in outcome.changed)
    return moved, [each.message for each in outcome.findings if each.code == "AMP290"]


@pytest.mark.parametrize("cast", [HALVES, "if self.fp16:\n            x = x.half()", "x = x.half()"])
def test_halves_for_an_object_of_another_file_that_runs_the_model(tmp_path: Path, cast: str) -> None:
    moved, (why,) = _moved(tmp_path, cast, APEX)
    assert not moved
    assert "cast to half precision meets float32 weights outside of any region, and raises: linear (parts.py:9)" in why


@pytest.mark.parametrize("cast", ["x = x.float()", "x = x.to(self.model.encoder.weight.dtype)", "x = x.half().float()"])
def test_what_is_given_has_the_precision_of_the_weights(tmp_path: Path, cast: str) -> None:
    assert _moved(tmp_path, cast, APEX) == (True, [])


def test_halves_in_a_region(tmp_path: Path) -> None:
    assert _moved(tmp_path, "pass", APEX, "decoder.model(torch.randn(8, 8).cuda().half())") == (True, [])


def test_halves_without_apex_are_as_they_were(tmp_path: Path) -> None:
    assert _moved(tmp_path, HALVES, WITHOUT) == (True, [])
