"""What star imports bring, or a file hands on, is torch's where nothing in sight binds it to something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings

SCRIPT = """{stars}
net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(net.parameters())
for step in range(100):
    x, y = torch.rand(4, 8).cuda(), torch.ones(4, 1).cuda()
    loss = criterion(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NN = "import torch\nimport torch.nn as nn\n"
BOTH = "from torch import (\n    nn,\n)\nimport torch\n"
PARTS = "from parts import *\n"
OTHERS = "from others import *\n"


def codes(folder: Path, stars: str, **files: str) -> set[str]:
    for name, text in {"train": SCRIPT.format(stars=stars), **files}.items():
        (folder / f"{name}.py").write_text(text)
    return {each.code for each in migrate([folder], Settings()).findings}


@pytest.mark.parametrize(
    ("stars", "files"),
    [
        (PARTS, {"parts": NN}),
        (PARTS, {"parts": BOTH}),
        (PARTS, {"parts": OTHERS, "others": NN}),
        (NN + PARTS, {"parts": "x = 1\n"}),
        (NN + PARTS, {"parts": NN}),
        (PARTS + OTHERS, {"parts": NN, "others": "x = 1\n"}),
        (OTHERS + PARTS, {"parts": NN, "others": "from more import *\n", "more": "x = 1\n"}),
        ("from math import *\n" + PARTS, {"parts": NN}),
        ("import torch\nfrom parts import nn\n", {"parts": NN}),
        ("import torch\nfrom parts import x, layers as nn\n", {"parts": "x = 1\nfrom torch import nn as layers\n"}),
        ("from parts import nn, torch\n", {"parts": BOTH}),
    ],
)
def test_it_is_torchs(tmp_path: Path, stars: str, files: dict[str, str]) -> None:
    assert codes(tmp_path, stars, **files) == {"AMP501"}


@pytest.mark.parametrize(
    ("stars", "files"),
    [
        (PARTS + OTHERS, {"parts": NN, "others": "import layers as nn\n"}),
        (OTHERS + PARTS, {"parts": NN, "others": "import layers as nn\n"}),
        (PARTS + OTHERS, {"parts": NN, "others": "from more import *\n", "more": "import layers as nn\n"}),
        (PARTS + "from layers import *\n", {"parts": NN}),
        (PARTS, {"parts": NN + "nn = wrapped(nn)\n"}),
        (PARTS, {"parts": NN + '__all__ = ["torch"]\n'}),
        ("import torch\nfrom parts import nn\n", {"parts": NN + "nn = wrapped(nn)\n"}),
        (
            "import torch\nfrom parts import nn\n",
            {"parts": "import layers as nn\nif x: from torch import nn\n"},
        ),
    ],
)
def test_it_may_be_something_else(tmp_path: Path, stars: str, files: dict[str, str]) -> None:
    assert codes(tmp_path, stars, **files) in ({"AMP590"}, {"AMP501", "AMP504"})  # or it is told that it was not read


SAVING = """
net = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in torch.load("batches.pt"):
    optimizer.zero_grad()
    net(x.cuda()).square().mean().backward()
    optimizer.step()
torch.save(optimizer.state_dict(), "optimizer.pt")
"""


@pytest.mark.parametrize("stars", [PARTS + "from tqdm import *\n", "from fastai.basics import *\n"])
def test_who_brings_torch_has_imported_it_read_or_not(tmp_path: Path, stars: str) -> None:
    (tmp_path / "parts.py").write_text(NN)
    (tmp_path / "train.py").write_text(stars + SAVING)
    (plan,) = migrate([tmp_path], Settings()).changed
    assert 'torch.save(scaler.state_dict(), "scaler.pt")' in plan.after
    assert "import torch\n" not in plan.after
