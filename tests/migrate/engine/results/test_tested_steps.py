"""A step that runs only where gradients pass a test: where they overflow, nothing may bring the scale down."""

from __future__ import annotations

import re

import pytest
import torch
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

TEXT = """\
import math
import torch
from torch import nn

model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for index, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    {test}
"""
STEPS = [
    "if norm < 5:\n        optimizer.step()",
    "if index < 100 or norm.item() < 5:\n        optimizer.step()",
    "if torch.isfinite(norm):\n        optimizer.step()",
    "if math.isnan(norm.item()):\n        print(index)\n    else:\n        optimizer.step()",
]


@pytest.mark.parametrize("test", STEPS)
def test_the_scale_is_updated_whether_or_not_gradients_let_a_step_be(test: str) -> None:
    after = migrate_text(TEXT.format(test=test), Settings()).after
    assert "    scaler.unscale_(optimizer)\n    norm = " in after
    assert f"    {test.replace('optimizer.step()', 'scaler.step(optimizer)')}\n    scaler.update()\n" in after


@pytest.mark.parametrize(
    "read",
    [
        "total = sum(p.grad.norm() ** 2 for p in model.parameters())\n    if total ** 0.5 < 5:",
        "total = 0\n    for p in model.parameters():\n        total += p.grad.norm()\n    ok = total < 5\n    if ok:",
    ],
)
def test_so_it_is_where_a_script_reads_them_itself(read: str) -> None:
    text = TEXT.replace("norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    {test}", read)
    after = migrate_text(text + "        optimizer.step()\n", Settings()).after
    assert re.search(r"    scaler.unscale_\(optimizer\)\n    (total = sum|for p in)", after)
    assert after.endswith("        scaler.step(optimizer)\n    scaler.update()\n")


@pytest.mark.parametrize(
    "test",
    [
        "try:\n        if norm < 5:\n            optimizer.step()\n    finally:\n        print(norm)",
        "with torch.no_grad():\n        if norm < 5:\n            optimizer.step()",
    ],
)
def test_a_step_in_something_else_that_they_decide_about_is_left(test: str) -> None:
    text = TEXT.format(test=test)
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "the scale is updated only where a test of gradients lets it be" in plan.findings[0].message
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


@pytest.mark.parametrize("test", ["norm > 5", "not torch.isfinite(norm)", "math.isnan(norm) or math.isinf(norm)"])
def test_the_scale_is_updated_where_the_rest_of_a_round_is_skipped(test: str) -> None:
    text = TEXT.format(test=f"if {test}:\n        optimizer.zero_grad()\n        continue\n    optimizer.step()")
    after = migrate_text(text, Settings()).after
    assert (
        "        optimizer.zero_grad()\n        scaler.update()\n        continue\n    scaler.step(optimizer)\n"
        in after
    )
    assert after.endswith("    scaler.update()\n")


def test_so_it_is_where_a_function_returns_for_it() -> None:
    test = "if not torch.isfinite(norm):\n        return None\n    optimizer.step()"
    text = TEXT.replace("for index, (x, y) in enumerate(loader):", "def step(x, y):").format(test=test)
    after = migrate_text(f"{text}\n\nfor x, y in loader:\n    step(x, y)\n", Settings()).after
    assert "        scaler.update()\n        return None\n    scaler.step(optimizer)\n" in after


@pytest.mark.parametrize(
    ("test", "is_left"),
    [
        ("if not torch.isfinite(norm):\n        break", True),
        ("if torch.isnan(norm).any():\n        raise RuntimeError(norm)", True),
        ("if norm > 1e4 or index > 9:\n        raise RuntimeError(norm)", True),
        ("if 1e4 < norm:\n        break", True),
        ("if norm < 1e-3:\n        break", False),
        ("if torch.isfinite(norm) and norm < 1e-3:\n        break", False),
        ("if not torch.isfinite(loss):\n        break", False),
    ],
)
def test_a_training_that_overflowing_gradients_end_is_left(test: str, is_left: bool) -> None:
    text = TEXT.format(test=f"{test}\n    optimizer.step()")
    plan = migrate_text(text, Settings())
    assert (plan.after == text) is is_left
    told = "a test of gradients ends the training where they overflow, as they do until the scale has come down (line "
    assert any(told in each.message for each in plan.findings) is is_left
    assert "autocast" in migrate_text(text, Settings(Dtype.BF16)).after


def test_what_to_do_about_a_batch_that_is_skipped_otherwise_is_said_where_it_is_unscaled() -> None:
    text = TEXT.replace("for index", "while again():\n  for index").replace("\n    ", "\n      ")
    text = text.format(test="if norm < 1e-3:\n        break\n      optimizer.step()")
    (told,) = migrate_text(text, Settings()).findings
    assert told.message == "left as it was: gradients are unscaled twice: norm < 0.001 is true (line 12)"
    assert told.hint.startswith("write scaler.update() before what skips a batch behind unscale_()")


@pytest.mark.parametrize(
    "test",
    [
        "if (index + 1) % 4 == 0:\n        optimizer.step()",
        "if norm > 5:\n        print(norm)\n    optimizer.step()",
    ],
)
def test_a_step_that_gradients_decide_nothing_about_moves(test: str) -> None:
    assert "scaler.update()" in migrate_text(TEXT.format(test=test), Settings()).after


def test_a_norm_that_is_printed_is_that_of_true_gradients() -> None:
    assert (
        "scaler.unscale_(optimizer)"
        in migrate_text(TEXT.format(test="print(norm); optimizer.step()"), Settings()).after
    )


def test_a_scale_that_is_not_updated_stays_too_large() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    optimizer = torch.optim.SGD([weight], 0.1)
    for is_updated in (False, True):
        scaler.scale((weight * float("inf")).sum()).backward()
        scaler.unscale_(optimizer)
        if is_updated:
            scaler.update()
            assert scaler.get_scale() == 2.0**15
        else:
            assert scaler.get_scale() == 2.0**16
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)


LEFT_OVER = """\
import torch
from torch import nn

model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
seen = 0
optimizer.zero_grad()
for index, (x, y) in enumerate(loader):
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    if {test}:
        optimizer.step()
        optimizer.zero_grad()
    seen += 1
if {left}:
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("left", ["(index + 1) % every != 0", "seen % every != 0", "seen % every"])
def test_gradients_that_are_left_over_behind_a_loop_are_stepped_on(left: str) -> None:
    test = f"not {left}" if left.endswith("every") else "(index + 1) % every == 0"
    text = LEFT_OVER.format(test=test.replace("seen", "(seen + 1)"), left=left)
    after = migrate_text(text, Settings()).after
    assert after.count("    scaler.step(optimizer)\n") == 2


def test_where_they_may_have_been_stepped_on_already_the_step_is_left() -> None:
    text = LEFT_OVER.format(test="(index + 1) % every == 0", left="index % every != 0")
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert "a scaler steps an optimizer without gradients" in plan.findings[0].message


def test_that_a_file_is_run_as_a_script_is_no_test_to_name() -> None:
    text = """\
import torch
from torch import nn

if __name__ == "__main__":
    first, second = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()
    opt_first = torch.optim.Adam(first.parameters())
    opt_second = torch.optim.Adam(second.parameters())
    for x in loader:
        opt_first.zero_grad()
        opt_second.zero_grad()
        loss = first(x.cuda()).square().mean()
        loss.backward()
        opt_first.step()
        opt_second.step()
"""
    [found] = migrate_text(text, Settings()).findings
    assert "steps an optimizer without gradients" in found.message
    assert "__name__" not in found.message
