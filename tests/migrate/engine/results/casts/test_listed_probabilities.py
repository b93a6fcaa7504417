"""Probabilities that are collected in a list before a loss reads them are made of float32 logits."""

from __future__ import annotations

from textwrap import indent

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

SCRIPT = """\
import lib
import torch
from torch import nn

net, squash, criterion = nn.Linear(8, 1).cuda(), nn.Sigmoid(), nn.BCELoss()
leaky = lib.Leaky(0.9).cuda()
optimizer = torch.optim.Adam(net.parameters())
for step in range(10):
    x, y = torch.rand(16, 8).cuda(), torch.ones(5, 16, 1).cuda()
    found = []
{computed}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
COLLECTED = "for each in range(5):\n    found.append({})\nloss = criterion(torch.stack(found), y)"


def moved(computed: str) -> tuple[str, list[str]]:
    plan = migrate_text(SCRIPT.format(computed=indent(computed, "    ")), Settings())
    assert "autocast(" in plan.after
    return plan.after, [each.code for each in plan.findings]


@pytest.mark.parametrize(
    ("computed", "cast"),
    [
        (COLLECTED.format("torch.sigmoid(net(x))"), "torch.sigmoid(net(x).float())"),
        (COLLECTED.format("squash(net(x))"), "squash(net(x).float())"),
        (COLLECTED.format("1 - squash(net(x))"), "1 - squash(net(x).float())"),
        (
            "found = [net(x).sigmoid() for _ in range(5)]\nloss = -torch.cat(found).log().mean()",
            "net(x).float().sigmoid()",
        ),
        ("found += [net(x).sigmoid()]\nloss = criterion(torch.stack(found), y)", "net(x).float().sigmoid()"),
        ("found = net(x).sigmoid(), y[0]\nloss = criterion(torch.stack(found), y[:2])", "net(x).float().sigmoid()"),
    ],
)
def test_what_gives_them_gets_float32(computed: str, cast: str) -> None:
    after, codes = moved(computed)
    assert cast in after
    assert codes == ["AMP501"]


def test_of_a_state_that_nobody_knows_only_its_code_is_told() -> None:
    start = "state = leaky.first(*[net(x)])\n"
    going_on = COLLECTED.replace("    ", "    spikes, state = leaky(net(x), state)\n    ").format("squash(state)")
    after, codes = moved(start + going_on)
    assert "squash(state.float())" in after
    assert sorted(codes) == ["AMP501", "AMP504"]


def test_one_without_a_name_for_its_logits_is_told_once() -> None:
    chosen = 'heads = {"a": nn.Sigmoid, "b": nn.Identity}\nhead = heads[step]()\n'
    _, codes = moved(chosen + COLLECTED.format("nn.Sequential(net, head)(x)"))
    assert sorted(codes) == ["AMP501", "AMP502"]


def test_logits_in_a_list_are_left() -> None:
    after, codes = moved("found = [net(x) for _ in range(5)]\nloss = nn.BCEWithLogitsLoss()(torch.stack(found), y)")
    assert ".float()" not in after
    assert codes == ["AMP501"]
