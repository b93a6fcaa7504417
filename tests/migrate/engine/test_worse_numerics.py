"""What low precision breaks in a step stays as it was; what it may harm moves, and is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Dtype, Settings

STEP = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HEAD = """\
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = [nn.BCELoss(), nn.MSELoss()]


def sample(x):
    with torch.no_grad():
        best = model(x).argmax(1)
    return model(x), best


for x, target in loader:
"""
NO_GRAD = f"{HEAD}    out, best = sample(x)\n    loss = nn.functional.cross_entropy(out, best)\n{STEP}"
GRAM = f"{HEAD}    out = model(x)\n    loss = (out @ out.t()).square().mean()\n{STEP}"


@pytest.mark.parametrize(
    ("target", "region"),
    [
        ((2, 6), 'torch.amp.autocast(device_type="cuda", dtype=torch.float16, cache_enabled=False)'),
        ((2, 15), 'torch.amp.autocast(device_type="cuda", dtype=torch.float16)'),
    ],
)
def test_a_weight_under_no_grad_and_with_gradients_is_cast_for_each(target: tuple[int, int], region: str) -> None:
    plan = migrate_text(NO_GRAD, Settings(target_torch=target))
    assert f"with {region}:\n        out, best = sample(x)" in plan.after
    assert migrate_text(plan.after, Settings(target_torch=target)).after == plan.after


def test_a_refused_loss_that_is_not_seen_by_its_name_leaves_the_step() -> None:
    text = f"{HEAD}    out = model(x).sigmoid()\n    loss = sum(each(out, target) for each in losses)\n{STEP}"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert [(each.code, each.kind) for each in plan.findings] == [("AMP590", Kind.LEFT)]
    assert "autocast refuses it: binary_cross_entropy" in plan.findings[0].message


def test_true_gradients_are_not_added_to_scaled_ones() -> None:
    text = f"{HEAD}    loss = model(x).mean()\n{STEP}    model(x).sum().backward()\n    optimizer.step()\n"
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert plan.findings[0].code == "AMP590"


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16])
def test_what_may_overflow_or_round_moves_and_is_told(dtype: Dtype) -> None:
    plan = migrate_text(GRAM, Settings(dtype=dtype))
    assert "with torch.amp.autocast(" in plan.after
    assert {each.code for each in plan.findings} == {"AMP501", "AMP504"}


def test_what_is_told_can_be_ignored() -> None:
    assert [each.code for each in migrate_text(GRAM, Settings(ignore=("AMP504",))).findings] == ["AMP501"]


def test_the_place_is_that_of_the_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text("def gram(x):\n    return x @ x.t()\n")
    body = "    loss = gram(model(x)).square().mean()\n"
    (tmp_path / "train.py").write_text(f"from losses import gram\n{HEAD}{body}{STEP}")
    told = [each for each in migrate([tmp_path], Settings()).findings if each.code == "AMP504"]
    assert [(Path(each.path).name, each.line) for each in told] == [("losses.py", 2)]


def test_an_excerpt_that_never_clears_gradients_moves() -> None:
    text = f"{HEAD}    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    assert "scaler.step(optimizer)" in migrate_text(text, Settings()).after
