"""AMP627: numbers that are zero in float16 and are to keep something from zero."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]
TRAIN = """
def train(model, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return model(x)
"""
MODULE = """
class Attention(nn.Module):
    def __init__(self):
        self.key = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.bias = nn.Parameter(torch.zeros(8))

    def forward(self, q, k, eps=1e-8):
        scores = {scores}
        return {result}{mark}
"""


def module(scores: str, result: str, mark: str = "") -> str:
    return MODULE.format(scores=scores, result=result, mark=mark) + TRAIN


@pytest.mark.parametrize(
    ("scores", "result"),
    [
        ("q @ k", "1 / (scores + 1e-8)"),
        ("torch.sigmoid(self.key(q))", "torch.log(scores + 1e-12)"),
        ("F.relu(torch.bmm(q, k))", "q / (1e-10 + scores)"),
        ("F.relu(q @ k).mean(-1, keepdim=True)", "q / scores.clamp(min=1e-8)"),
        ("torch.abs(self.key(q)).amax(-1)", "q / scores.clamp(1e-9, 1.0)"),
        ("self.key(q).sigmoid()", "torch.clamp(scores, min=1e-8, max=1.0).log()"),
        ("self.key(q).relu()", "q / torch.clamp_min(scores, 1e-16)"),
        ("torch.einsum('ij,jk->ik', q, k).abs()", "(scores + EPS).sqrt()"),
        # whatever comes between
        ("torch.cat([self.key(q), self.key(k)])", "1 / (scores + 1e-8)"),
        ("(lambda x: {'x': x.mT})(q @ k)['x']", "1 / (scores + 1e-8)"),
    ],
)
def test_a_number_that_float16_rounds_to_zero_is_told(marked: Check, scores: str, result: str) -> None:
    found = marked("EPS = 1e-8\n\n" + module(scores, result, "  # AMP627"))
    assert found[0].hint == "write scores.float() there, or a number from 1e-7 up"
    assert "is zero in float16, and keeps scores from nothing" in found[0].message


@pytest.mark.parametrize(
    ("scores", "result"),
    [
        # float16 has the number
        ("q @ k", "1 / (scores + 1e-7)"),
        ("q @ k", "1 / (scores + 6e-8)"),
        ("q @ k", "scores + 1e8"),
        ("q @ k", "scores.clamp(min=1e-4)"),
        ("q @ k", "scores.clamp(-1e-9, 1.0)"),
        # nobody knows the number
        ("q @ k", "1 / (scores + self.eps + 2 * 1e-9)"),
        # autocast computes it in float32
        ("(q @ k).sum(-1, keepdim=True)", "q / (scores + 1e-8)"),
        ("(q @ k).norm(dim=-1)", "q / (scores + 1e-8)"),
        ("torch.exp(q @ k)", "q / (scores + 1e-8)"),
        ("torch.softmax(self.key(q), -1)", "torch.log(scores + 1e-8)"),
        ("(q @ k).square()", "(scores + 1e-8).sqrt()"),
        ("self.norm(self.key(q))", "1 / (scores + 1e-8)"),
        ("F.normalize(q @ k, eps=1e-12)", "scores"),
        ("F.layer_norm(q @ k, (8,), eps=1e-12)", "scores"),
        # it is float32, or nobody knows
        ("(q @ k).float()", "1 / (scores + 1e-8)"),
        ("q.mean(-1)", "1 / (scores + 1e-8)"),
        ("q", "scores.clamp(min=1e-8)"),
        ("torch.zeros(3)", "1 / (scores + 1e-8)"),
        ("(q @ k) + self.bias", "1 / (scores + 1e-8)"),
        # nothing is kept from zero
        ("q @ k", "scores.clamp(max=1e-8)"),
        ("q @ k", "scores * 1e-8"),
    ],
)
def test_what_float16_has_or_what_is_float32_may_have_its_epsilon(clean: Check, scores: str, result: str) -> None:
    clean(module(scores, result))


KEPT = """
class Attention(nn.Module):
    def __init__(self, eps={default}):
        super().__init__()
        self.eps = eps

    def forward(self, q, k):
        return (q @ k).abs().clamp(min=self.eps).log(){mark}

{made}
"""


def test_a_default_is_what_a_number_is_if_nobody_says_otherwise(marked: Check) -> None:
    marked(module("q @ k", "1 / (scores + eps)", "  # AMP627"))
    (found,) = marked(KEPT.format(default="1e-10", mark="  # AMP627", made="net = Attention") + TRAIN)
    assert "self.eps is zero in float16 where it is 1e-10, and keeps" in found.message


@pytest.mark.parametrize(
    ("default", "made", "is_told"),
    [
        ("1e-4", "net = Attention(1e-10)", True),
        ("1e-10", "net = Attention(eps=1e-4)", False),
        ("1e-10", "net, other = Attention(1e-4), Attention()", False),  # of one of two, that is not all
        ("None", "net = Attention", False),
        ("1e-4", "net = Attention", False),
    ],
)
def test_the_number_is_the_one_that_it_is_made_with(marked: Check, default: str, made: str, is_told: bool) -> None:
    mark = "  # AMP627" if is_told else ""
    marked("LEAST = 1e-10\n" + KEPT.format(default=default, mark=mark, made=made) + TRAIN)


def test_a_loss_in_a_region_is_told_and_one_outside_is_not(marked: Check) -> None:
    marked(
        """
        def loss(scaler, a, b):
            with torch.autocast("cuda"):
                similar = F.relu(a @ b)
                loss = (1 / (similar + 1e-8)).mean()  # AMP627
            other = a @ b
            return loss + (1 / (other + 1e-8)).mean()

        def in_bfloat16(a, b):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return 1 / (a @ b + 1e-8)

        def switched_off(a, b):
            with torch.autocast("cuda", enabled=False):
                return 1 / (a @ b + 1e-8)
        """
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def forward", "    @torch.autocast('cuda', enabled=False)\n    def forward"),
        (
            "    def forward",
            "    @torch.amp.custom_fwd(device_type='cuda')\n    def forward",
        ),
        ("class Attention(nn.Module):\n", "class Attention:\n    pass\n\nclass Other:\n"),
        ("        return", "        with torch.autocast('cuda', enabled=False):\n          return"),
    ],
)
def test_modules_that_say_their_dtype_are_right(clean: Check, old: str, new: str) -> None:
    text = module("q @ k", "1 / (scores + 1e-8)")
    assert old in text
    text = text.replace(old, new, 1)
    clean(text.replace("def forward", "def other") if "Other" in new else text)


def test_bfloat16_has_the_range_of_float32(clean: Check) -> None:
    clean(module("q @ k", "1 / (scores + 1e-8)").replace("torch.float16", "torch.bfloat16"))
    text = "import torch\nfrom torch import nn\n" + module("q @ k", "1 / (scores + 1e-8)")
    assert "AMP627" not in {each.code for each in migrate_text(text, Settings(dtype=Dtype.BF16)).findings}


def test_an_optimizers_epsilon_is_right(clean: Check) -> None:
    clean("optimizer = torch.optim.Adam(model.parameters(), eps=1e-12)\n" + TRAIN)


def test_the_models_below_a_script_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "run/models").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    model = "from torch import nn\n" + MODULE.format(scores="q @ k", result="1 / (scores + 1e-8)", mark="")
    (tmp_path / "run/train.py").write_text("import models.attention\nimport torch\n" + TRAIN)
    (tmp_path / "run/models/attention.py").write_text(model)
    (tmp_path / "other/attention.py").write_text(model)
    findings = migrate([tmp_path], Settings()).findings
    found = [(Path(each.path).relative_to(tmp_path).as_posix(), each.code, each.line) for each in findings]
    assert found == [("run/models/attention.py", "AMP627", 11)]


MOVED = """\
import torch
from torch import nn
import torch.nn.functional as F


def squared(a, b):
    found = -2 * torch.matmul(a, b.permute(0, 2, 1))
    found += torch.sum(a ** 2, -1).view(4, 32, 1)
    found += torch.sum(b ** 2, -1).view(4, 1, 8)
    return found


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        near = squared(x, x[:, :8])
        scores = F.relu(self.head(x))
        return {result}.mean(1)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10):
    x, y = torch.randn(4, 32, 3).cuda(), torch.randint(0, 4, (4,)).cuda()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("result", "is_told"),
    [
        ("scores * (1.0 / (near[:, :, :3] + 1e-8)).sum(-1, keepdim=True)", False),
        ("scores / (scores + 1e-8)", True),
        ("(scores + 1e-8)", True),
    ],
)
def test_a_number_that_guards_what_the_result_has_in_float32_is_not_told(result: str, is_told: bool) -> None:
    plan = migrate_text(MOVED.format(result=result), Settings())
    assert "scaler.scale(loss).backward()" in plan.after
    assert "enabled=False):\n        found =" in plan.after
    assert any(each.code == "AMP627" for each in plan.findings) is is_told


ANGLE = """
    import torch
    from torch import nn

    class Angle(nn.Module):
        def forward(self, a, b):
            products = torch.einsum("bs,bs->b", a, b)
            return torch.acos(products / (products + 1e-8)).mean(){mark}
"""
WITH_ANGLE = """
    import torch
    from torch import nn
    from parts import Angle
    from others import Loss

    model, angle = nn.Linear(16, 4).cuda(), {made}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            loss = {loss}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
ALONE = "nn.functional.cross_entropy(model(x), y)"


@pytest.mark.parametrize(
    ("made", "loss", "is_told"),
    [
        ("Angle()", ALONE, False),
        ("Angle()", f"{ALONE} + angle(x, y)", True),
        ("Loss(Angle())", f"{ALONE} + angle(x, y)", True),  # who gets it may call it
        ("Angle", f"{ALONE} + Loss(angle)(x, y)", True),
    ],
)
def test_a_module_that_is_made_and_never_called_runs_in_no_region(
    marked_files: Check, made: str, loss: str, is_told: bool
) -> None:
    mark = "  # AMP627" if is_told else ""
    marked_files(parts=ANGLE.format(mark=mark), train=WITH_ANGLE.format(made=made, loss=loss))
