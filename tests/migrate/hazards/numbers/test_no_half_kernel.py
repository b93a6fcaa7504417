"""AMP632: matrices that are inverted or taken apart, or transformed by FFT, in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

TRAIN = """\
import torch

def train(model, head, loader, scaler):
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.{dtype}):
            out = model(x)
            products = out.t() @ out
            loss = {loss}
        scaler.scale(loss).backward()
"""
MODEL = """\
import torch
from torch import nn

class Whiten(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        {body}
        return h
"""
MOVED = """\
import torch
from model import Whiten
net = Whiten()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in loader:
    loss = net(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def repaired(text: str, dtype: Dtype = Dtype.FP16) -> str:
    plan = migrate_text(text, Settings(dtype, select=("AMP632",)))
    again = migrate_text(plan.after, Settings(dtype, select=("AMP632",)))
    assert again.after == plan.after
    assert not again.findings
    return plan.after


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "name", ["linalg.svd", "linalg.eigh", "linalg.qr", "linalg.det", "inverse", "logdet", "slogdet"]
)
def test_torch_has_no_such_kernel(name: str, dtype: torch.dtype) -> None:
    function = torch.linalg.__dict__[name[7:]] if name.startswith("linalg.") else getattr(torch, name)
    function(torch.eye(3))
    with pytest.raises(RuntimeError, match=r"not implemented for|Low precision dtypes not supported"):
        function(torch.eye(3, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.svd(products)[1].sum()", "torch.svd(products.float())[1].sum()"),
        ("torch.linalg.solve(products, x @ x)", "torch.linalg.solve(products.float(), (x @ x).float())"),
        ("products.inverse().sum()", "products.float().inverse().sum()"),
        ("torch.logdet(torch.mm(x, x))", "torch.logdet(torch.mm(x, x).float())"),
        ("torch.linalg.inv_ex(x @ x)[0].sum()", "torch.linalg.inv_ex((x @ x).float())[0].sum()"),
        ("torch.linalg.matrix_rank(A=products)", "torch.linalg.matrix_rank(A=products.float())"),
        ("torch.fft.rfft2(out).abs().sum()", "torch.fft.rfft2(out.float()).abs().sum()"),
        ("torch.fft.ifftn(products, dim=0).abs().sum()", "torch.fft.ifftn(products.float(), dim=0).abs().sum()"),
        ("torch.stft(products, 4, window=y).sum()", "torch.stft(products.float(), 4, window=y).sum()"),
        (
            "torch.stft(products, 4, window=products[0]).abs().sum()",
            "torch.stft(products.float(), 4, window=products[0].float()).abs().sum()",
        ),
        ("products.stft(n_fft=4).abs().sum()", "products.float().stft(n_fft=4).abs().sum()"),
        ("torch.inverse(torch.stack([products])).sum()", "torch.inverse(torch.stack([products]).float()).sum()"),
    ],
)
def test_products_are_solved_in_float32(old: str, new: str, dtype: str) -> None:
    settings = Dtype.FP16 if dtype == "float16" else Dtype.BF16
    assert repaired(TRAIN.format(dtype=dtype, loss=old), settings) == TRAIN.format(dtype=dtype, loss=new)


@pytest.mark.parametrize(
    "loss",
    [
        "torch.inverse(y).sum()",  # whatever it is: it comes from the data
        "torch.svd(products.float())[1].sum()",
        "torch.linalg.norm(products)",
        "torch.linalg.matrix_exp(products).sum()",
        "head.solve(products)",
        "math.det(products)",
        "torch.fft.fftn(y).abs().sum()",
        "torch.fft.irfft2(torch.fft.rfft2(products.float())).sum()",  # complex64 is no half
        "torch.istft(torch.stft(y, 4, return_complex=True), 4).stft(4).abs().sum()",
        "torch.fft.fftshift(products).sum()",  # moves elements alone
        "torch.stft(products, 4, window=torch.hann_window(4)).abs().sum()",  # multiplied by it, it is float32
        "products.stft(4, window=torch.ones(4)).abs().sum()",
    ],
)
def test_others_are_left(loss: str) -> None:
    text = "import math\n" + TRAIN.format(dtype="float16", loss=loss).replace("head.solve", "my.solve")
    assert repaired(text) == text


def test_what_is_given_more_than_a_matrix_takes_is_no_inverse_of_one(tmp_path: Path) -> None:
    text = MODEL.format(body="grid = make(h); return grid.inverse(h)").replace(
        "import torch\n", "import torch\nfrom grids import make\n", 1
    )
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "train.py").write_text(MOVED)
    assert not [each for each in migrate([tmp_path], Settings()).findings if each.code == "AMP632"]


def test_outside_of_regions_products_are_float32() -> None:
    text = TRAIN.format(dtype="float16", loss="out.sum()") + "        print(torch.inverse(x @ x))\n"
    assert repaired(text) == text
    text = TRAIN.format(dtype="float16", loss="torch.inverse(x @ x).sum()").replace(
        '"cuda", ', '"cuda", enabled=False, '
    )
    assert repaired(text) == text


def test_a_model_in_another_file_is_repaired_when_its_training_moves(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(body="u, s, v = torch.svd(h)"))
    (tmp_path / "train.py").write_text(MOVED)
    outcome = migrate([tmp_path], Settings())
    texts = {each.source.path.name: each.after for each in outcome.changed}
    assert texts["model.py"] == MODEL.format(body="u, s, v = torch.svd(h.float())")
    assert [each.line for each in outcome.findings if each.code == "AMP632" and each.kind is Kind.MIGRATED] == [11]


@pytest.mark.parametrize(
    ("run", "beside", "is_told"),
    [
        ("print(Whiten()(x))", "", False),
        ("print(x)", "", True),  # somebody makes it, who is out of sight
        ("print(Whiten()(x))", "from timing import Whiten", True),
        ("print(Whiten()(x))", "import timing", True),
        ("print(Whiten()(x))", "importlib.import_module(name)", True),
    ],
)
def test_what_runs_its_own_module_beside_a_script_is_in_none_of_its_regions(
    tmp_path: Path, run: str, beside: str, is_told: bool
) -> None:
    (tmp_path / "timing.py").write_text(
        f"{MODEL.format(body='h = torch.svd(h @ h.t())')}\nx = torch.ones(4, 4)\n{run}\n"
    )
    (tmp_path / "model.py").write_text(MODEL.format(body="h = h + 1"))
    (tmp_path / "train.py").write_text(MOVED)
    (tmp_path / "other.py").write_text(f"{beside}\n")
    found = [each for each in migrate([tmp_path], Settings()).findings if each.code == "AMP632"]
    assert bool(found) is is_told


def test_a_filter_behind_a_convolution_is_computed_in_float32() -> None:
    text = f"""\
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.conv(x)
        x = torch.fft.fftn(x, dim=(2, 3))
        x = torch.abs(torch.fft.ifftn(x, dim=(2, 3)))
        return self.fc(x.mean(dim=(2, 3)))

{MOVED.replace("from torch import nn", "").replace("import torch", "", 1).replace("Whiten", "Filter")}"""
    text = text.replace("from model import Filter\n", "")
    plan = migrate_text(text, Settings())
    assert "torch.fft.fftn(x.float(), dim=(2, 3))" in plan.after
    assert "torch.fft.ifftn(x, dim=(2, 3))" in plan.after
    assert [each.message for each in plan.findings if each.code == "AMP632"] == [
        "repaired: no kernel takes x in half precision, but cuFFT's for float16 of sizes that are powers of two"
    ]


def test_a_model_with_a_region_of_its_own_decides_by_itself() -> None:
    train = TRAIN.format(dtype="float16", loss="out.sum()")
    switch = 'with torch.autocast("cuda", enabled=False):\n            u, s, v = torch.svd(self.fc(x))'
    text = MODEL.format(body=switch) + train
    assert repaired(text) == text
    text = MODEL.format(body="u, s, v = torch.svd(self.fc(x))") + train
    assert repaired(text) == text.replace("svd(self.fc(x))", "svd(self.fc(x).float())")


def test_what_a_constructor_takes_apart_is_in_no_region() -> None:
    train = TRAIN.format(dtype="float16", loss="out.sum()")
    start = "self.fc = nn.Linear(4, 4)\n        q, r = torch.linalg.qr(self.fc.weight @ self.fc.weight)"
    text = MODEL.format(body="h = h + 1").replace("self.fc = nn.Linear(4, 4)", start) + train
    assert repaired(text) == text
