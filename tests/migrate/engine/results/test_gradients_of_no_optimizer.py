"""Gradients that are clipped, and that no optimizer has: `unscale_` leaves them multiplied by the loss scale."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.report.finding import Kind
from amp_migrate.settings import Settings

HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head({hidden})


model = Net().cuda()
{frozen}
optimizer = torch.optim.SGD({parameters}, lr=0.1)
"""
PLAIN = """\
for x, y in loader:
    model.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_({clipped}, 1.0)
    optimizer.step()
"""
NATIVE = """\
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    model.zero_grad()
    with torch.amp.autocast("cuda", dtype=torch.float16):
        loss = (model(x) - y).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_({clipped}, {limit})
    scaler.step(optimizer)
    scaler.update()
"""
_OF_HEAD = {"parameters": "model.head.parameters()", "clipped": "model.parameters()"}
_BOTH = '[{"params": model.head.parameters()}, {"params": model.body.parameters(), "lr": 0.2}]'


def _filled(text: str, **given: str) -> str:
    whole = {"hidden": "self.body(x)", "frozen": "", "limit": "1.0", **_OF_HEAD}
    return (HEAD + text).format(**{**whole, **given})


# The gradients of the body are true, or there are none.
_HARMLESS = [
    {"clipped": "model.head.parameters()"},
    {"parameters": "model.parameters()"},
    {"parameters": _BOTH},
    {"parameters": "filter(lambda p: p.requires_grad, model.parameters())"},
    {"hidden": "self.body(x).detach()"},
    {"frozen": "model.body.requires_grad_(False)"},
    {"frozen": "for p in model.body.parameters():\n    p.requires_grad = False"},
]


def test_step_that_clips_them_is_left() -> None:
    plan = migrate_text(_filled(PLAIN), Settings())
    assert not plan.changed
    (left,) = [each for each in plan.findings if each.kind is Kind.LEFT]
    assert left.message.startswith("left as it was: gradients of parameters that no optimizer has are clipped")


@pytest.mark.parametrize("given", _HARMLESS)
def test_step_that_clips_none_of_them_moves(given: dict[str, str]) -> None:
    assert "scaler.unscale_(optimizer)" in migrate_text(_filled(PLAIN, **given), Settings()).after


def test_clipping_them_behind_unscale_is_a_hazard() -> None:
    (told,) = [each for each in migrate_text(_filled(NATIVE), Settings()).findings if each.code == "AMP601"]
    assert "no optimizer has: unscale_() leaves them multiplied by the loss scale" in told.message


@pytest.mark.parametrize("given", _HARMLESS)
def test_clipping_none_of_them_is_no_hazard(given: dict[str, str]) -> None:
    findings = migrate_text(_filled(NATIVE, **given), Settings()).findings
    assert not [each for each in findings if each.code == "AMP601"]


_APEX = """\
from apex import amp
if args.fp16:
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in loader:
    model.zero_grad()
    loss = (model(x) - y).square().mean()
    if args.fp16:
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
{between}\
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
    else:
{plain}\
        torch.nn.utils.clip_grad_norm_({clipped}, 1.0)
    optimizer.step()
"""
_BACKWARD = "        loss.backward()\n"
_TOGETHER = {"between": "", "plain": _BACKWARD}
_BEHIND = {"between": f"    else:\n{_BACKWARD}    if args.fp16:\n", "plain": ""}


@pytest.mark.parametrize("branches", [_TOGETHER, _BEHIND])
def test_branch_of_apex_that_clips_what_the_optimizer_has_stays_beside_the_other(branches: dict[str, str]) -> None:
    after = migrate_text(_filled(_APEX, **branches), Settings()).after
    own = '(p for group in optimizer.param_groups for p in group["params"])'
    assert "apex" not in after
    assert f"clip_grad_norm_({own}, 1.0)\n    else:\n" in after
    assert "clip_grad_norm_(model.parameters(), 1.0)" in after


@pytest.mark.parametrize("branches", [_TOGETHER, _BEHIND])
def test_branches_that_clip_the_same_are_one(branches: dict[str, str]) -> None:
    after = migrate_text(_filled(_APEX, parameters="model.parameters()", **branches), Settings()).after
    assert "apex" not in after
    assert "else:" not in after


def test_script_whose_branches_cannot_be_told_apart_keeps_what_apex_clips() -> None:
    groups = '[{"params": model.head.parameters()}]'
    after = migrate_text(_filled(_APEX, parameters=groups, **_TOGETHER), Settings()).after
    assert "from amp_shim import amp\n" in after
    assert "clip_grad_norm_(amp.master_params(optimizer), 1.0)" in after
