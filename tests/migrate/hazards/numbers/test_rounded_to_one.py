"""AMP631: limits of probabilities that are one in low precision."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
import torch
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Dtype, Settings

LOG = "loss = -(y * torch.log(p) + (1 - y) * torch.log(1.0 - p)).sum()"


def script(body: str, signature: str = "p, y") -> str:
    """A file that computes in float16, with a loss function of its own."""
    region = """\
        def train(model, x, y, scaler):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = focal(model(x), y)
            scaler.scale(loss).backward()
        """
    return f"import torch\n\ndef focal({signature}):\n{indent(body, '    ')}\n    return loss\n\n{dedent(region)}"


def after(body: str, dtype: Dtype = Dtype.FP16, signature: str = "p, y") -> str:
    text = script(body, signature)
    plan = migrate_text(text, Settings(dtype, select=("AMP631",)))
    again = migrate_text(plan.after, Settings(dtype, select=("AMP631",)))
    assert again.after == plan.after
    assert not again.findings
    return plan.after


@pytest.mark.parametrize(
    ("dtype", "limit", "nearest"), [(torch.float16, 1 - 1e-4, 1 - 3e-4), (torch.bfloat16, 1 - 1.5e-3, 1 - 2.5e-3)]
)
def test_such_a_limit_is_one_in_low_precision(dtype: torch.dtype, limit: float, nearest: float) -> None:
    ones = torch.ones(1, dtype=dtype)
    assert ones.clamp(max=limit).item() == 1.0
    assert ones.clamp(max=nearest).item() < 1.0
    assert torch.log(1 - ones.float().clamp(max=limit)).isfinite().all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.clamp(p, 1e-4, 1.0 - 1e-4)", "torch.clamp(p.float(), 1e-4, 1.0 - 1e-4)"),
        ("torch.clamp(p, min=1e-4, max=1-1e-4)", "torch.clamp(p.float(), min=1e-4, max=1-1e-4)"),
        ("p[0].clamp(1e-4, 0.9999)", "p[0].float().clamp(1e-4, 0.9999)"),
        ("(p + 0).clip(max=1. - 1e-6)", "(p + 0).float().clip(max=1. - 1e-6)"),
    ],
)
def test_the_limit_is_kept_in_float32(old: str, new: str) -> None:
    assert after(f"p = {old}\n{LOG}") == script(f"p = {new}\n{LOG}")


def test_a_sigmoid_is_a_probability_wherever_it_goes() -> None:
    old = "loss = torch.clamp(p.sigmoid_(), min=1e-4, max=1 - 1e-4).sum()"
    assert after(old) == script(old.replace("sigmoid_()", "sigmoid_().float()"))


def test_a_default_and_an_attribute_are_read() -> None:
    body = f"p = p.clamp(eps, 1 - eps)\n{LOG}"
    signature = "p, y, eps=1e-7"
    assert after(body, signature=signature) == script(body.replace("p.clamp", "p.float().clamp"), signature)
    text = """\
        import torch
        class Loss(torch.nn.Module):
            def __init__(self, eps=1e-6):
                self.eps = eps
            def forward(self, p, y):
                return torch.clamp(torch.sigmoid(p), self.eps, 1 - self.eps).log() * y
        def train(model, x, y, scaler):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = Loss()(model(x), y)
        """
    plan = migrate_text(dedent(text), Settings(select=("AMP631",)))
    assert "torch.clamp(torch.sigmoid(p).float(), self.eps, 1 - self.eps)" in plan.after


def test_bfloat16_has_fewer_numbers_below_one() -> None:
    body = f"p = p.clamp(1e-3, 1 - 1e-3)\n{LOG}"
    assert after(body) == script(body)
    text = script(body).replace("torch.float16", "torch.bfloat16")
    plan = migrate_text(text, Settings(select=("AMP631",)))
    assert plan.after == text.replace("p.clamp", "p.float().clamp")


@pytest.mark.parametrize(
    "body",
    [
        "p = p.clamp(1e-4, 1 - 1e-4)\nloss = -torch.log(p).sum()",
        f"p = p.clamp(1e-4, 1 - 1e-2)\n{LOG}",
        f"p = p.softmax(-1)\np = p.clamp(1e-4, 1 - 1e-4)\n{LOG}",
        f"p = p.float()\np = p.clamp(1e-4, 1 - 1e-4)\n{LOG}",
        f"p = torch.stack([each.detach().float() for each in p])\np = p.clamp(1e-4, 1 - 1e-4)\n{LOG}",
        f"p = torch.cat([y.double(), y.double()], 0).clamp(1e-4, 1 - 1e-4)\n{LOG}",
        f'with torch.autocast("cuda", enabled=False):\n    p = p.clamp(1e-4, 1 - 1e-4)\n{LOG}',
        f"p = p.clamp(1e-4, 1 - y)\n{LOG}",
        f"p = p.clamp(1e-4, 1 + 1e-4)\n{LOG}",
    ],
)
def test_what_does_no_harm_or_is_float32_stays(body: str) -> None:
    assert after(body) == script(body)


def test_a_list_of_which_one_is_float32_may_be_low() -> None:
    body = f"p = torch.cat([each for each in (p.float(), y)])\np = p.clamp(1e-4, 1 - 1e-4)\n{LOG}"
    assert after(body) != script(body)


@pytest.mark.parametrize(("base", "is_told"), [("torch.optim.Adam", False), ("torch.nn.Module", True)])
def test_what_an_optimizer_computes_runs_in_no_region(base: str, is_told: bool) -> None:
    method = f"class It({base}):\n    def step(self, p, y):\n        p = p.clamp(1e-7, 1 - 1e-7)\n        {LOG}\n\n"
    text = script("loss = p.sum()").replace("def focal", f"{method}def focal")
    assert (migrate_text(text, Settings(select=("AMP631",))).after != text) is is_told


@pytest.mark.parametrize(
    ("drawn", "is_float32"),
    [
        ("torch.zeros_like(self.mask).uniform_()", True),
        ("torch.rand(3).to(y.device)", True),
        ("torch.zeros_like(y).uniform_()", False),
        ("torch.rand(3, dtype=y.dtype)", False),
        ("torch.rand(3).type_as(y)", False),
        ("torch.rand(3).to(y)", False),
    ],
)
def test_a_random_number_of_the_default_dtype_is_float32(drawn: str, is_float32: bool) -> None:
    text = f"""\
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.ones(3))

    def forward(self, y):
        u = {drawn}.clamp(1e-4, 0.9999)
        return u.log() - (1 - u).log()

with torch.autocast("cuda", dtype=torch.float16):
    Gate()(y)
"""
    plan = migrate_text(text, Settings(select=("AMP631",)))
    assert (plan.after == text) is is_float32


@pytest.mark.parametrize("limit", ["1 - 1e-15", "1 - 2**-26", "1.0"])
def test_a_limit_that_is_one_in_float32_too_is_the_original_s(limit: str) -> None:
    body = f"p = torch.sigmoid(p).clamp(0, {limit})\n{LOG}"
    assert after(body) == script(body)
    assert torch.ones(1).clamp(max=eval(limit)).item() == 1.0


STEP = """\
from torch.amp import autocast


def run(scaler, optimizer, compute, loader):
    for data in loader:
        optimizer.zero_grad()
        with autocast(device_type="cuda", dtype=torch.float16):
            loss = {loss}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
MAIN = """\
import torch
from models.head import Head
from train.step import run


class Compute:
    def __init__(self, net):
        self.net = net

    def __call__(self, data):
        x, y = data
        p = self.net(x.cuda())
        return -(torch.log(p) * y.cuda() + torch.log(1 - p) * (1 - y.cuda())).mean()


net = Head().cuda()
run(torch.amp.GradScaler("cuda"), torch.optim.Adam(net.parameters()), Compute(net), torch.load("data.pt"))
"""
HEADS = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 1, 3, padding=1)

    def forward(self, x):
        return torch.clamp(self.conv(x).sigmoid_(), min=1e-4, max=1 - 1e-4)
"""


@pytest.mark.parametrize(
    ("loss", "told"), [("compute(data)", ["models/head.py"]), ("other(data)", []), ("data[0].cuda().mean()", [])]
)
def test_what_a_region_runs_is_seen_in_any_folder(tmp_path: Path, loss: str, told: list[str]) -> None:
    texts = {"train/step.py": f"import torch\n{STEP.format(loss=loss)}", "train/main.py": MAIN, "models/head.py": HEADS}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    findings = migrate([tmp_path], Settings(select=("AMP631",))).findings
    assert [Path(each.path).relative_to(tmp_path).as_posix() for each in findings] == told
