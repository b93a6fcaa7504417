"""An object that steps a given optimizer for who goes backward: it is handed the scaler as a function is."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

MASK = """\
class Masking:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.step()
"""
TRAIN = """\
import sys

import torch
import torch.nn.functional as F
from torch import nn
IMPORT
from mask import Masking


def train(model, loader, optimizer, mask=None):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.cuda()), y.cuda())
        BACKWARD
        if mask is not None:
            mask.step()
        else:
            optimizer.step()


def main(dense):
    loader = [(torch.rand(8, 16), torch.randint(4, (8,))) for _ in range(20)]
    model = nn.Linear(16, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    PREPARE
    mask = None
    if not dense:
        mask = Masking(optimizer)
    train(model, loader, optimizer, mask)


main(len(sys.argv) > 1)
"""
DIALECTS = {
    "float32": ("", "loss.backward()", "pass"),
    "amp": (
        "from apex import amp",
        "with amp.scale_loss(loss, optimizer) as scaled:\n            scaled.backward()",
        "model, optimizer = amp.initialize(model, optimizer, opt_level='O1')",
    ),
    "fp16_utils": (
        "from apex.fp16_utils import FP16_Optimizer",
        "optimizer.backward(loss)",
        "optimizer = FP16_Optimizer(optimizer, dynamic_loss_scale=True)\n    model = model.half()",
    ),
}


def _results(folder: Path, dialect: str, mask: str, train: str) -> dict[str, str]:
    for hole, code in zip(("IMPORT", "BACKWARD", "PREPARE"), DIALECTS[dialect], strict=True):
        train = train.replace(hole, code)
    (folder / "mask.py").write_text(mask)
    (folder / "train.py").write_text(train)
    return {each.source.path.name: each.after for each in migrate([folder], Settings()).changed}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_object_is_handed_the_scaler_where_it_steps(tmp_path: Path, dialect: str) -> None:
    results = _results(tmp_path, dialect, MASK, TRAIN)
    assert results["mask.py"].endswith("    def step(self, scaler):\n        scaler.step(self.optimizer)\n")
    assert "mask.step(scaler)\n            scaler.update()" in results["train.py"]
    assert "scaler.step(optimizer)\n            scaler.update()" in results["train.py"]
    assert "train(model, loader, optimizer, mask, scaler)" in results["train.py"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("mask", "train"),
    [
        # Who else calls it has no scaler.
        (
            MASK,
            TRAIN.replace(
                "main(len(sys.argv) > 1)",
                "main(len(sys.argv) > 1)\nMasking(torch.optim.SGD([torch.ones(1)], 0.1)).step()",
            ),
        ),
        # It may be of another class.
        (
            f"{MASK}\n\nclass Other(Masking):\n    def step(self):\n        self.optimizer.zero_grad()\n",
            TRAIN.replace("import Masking", "import Masking, Other").replace(
                "mask = Masking(optimizer)", "mask = Other(optimizer) if len(loader) > 3 else Masking(optimizer)"
            ),
        ),
        (
            MASK.replace(
                "        self.optimizer.step()", "        if self.optimizer.state:\n            self.optimizer.step()"
            ),
            TRAIN,
        ),
    ],
)
def test_step_stays_where_not_every_call_of_it_can_have_one(
    tmp_path: Path, dialect: str, mask: str, train: str
) -> None:
    results = _results(tmp_path, dialect, mask, train)
    assert "mask.py" not in results
    assert "scaler" not in results.get("train.py", "")
