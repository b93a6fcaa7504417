"""What other packages have made without anything of the script brings no gradients to the script's own networks."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TURNS = """\
import lib
import torch
from torch import nn

first, second = nn.Linear(8, 4).cuda(), nn.Linear(8, 4).cuda()
opt_first = torch.optim.SGD(first.parameters(), lr=0.1)
opt_second = torch.optim.SGD(second.parameters(), lr=0.1)
MADE
for epoch in range(20):
    for x, y in loader:
        opt_first.zero_grad()
        opt_second.zero_grad()
        if epoch < 10:
            out = first(x.cuda())
        else:
            out = second(x.cuda())
        loss = LOSS
        loss.backward()
        opt_first.step()
        opt_second.step()
"""
COMPARED = "nn.functional.cross_entropy(out, y.cuda())"


def is_left(made: str, loss: str) -> bool:
    """Whether the step is left because one of the optimizers has no gradients."""
    plan = migrate_text(TURNS.replace("MADE", made).replace("LOSS", loss), Settings())
    return any("without gradients" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("config = lib.Loader('config').load().part", f"{COMPARED} / config.scale"),
        ("config = lib.Loader('config').load().part", f"{COMPARED} * config.scale + config.offset"),
        ("config = lib.Loader('config').load()", f"{COMPARED} * config['scale']"),
        ("config = lib.Loader('config').load()\nlib.note(opt_first.state_dict())", f"{COMPARED} * config.scale"),
        ("", COMPARED),
    ],
)
def test_a_factor_that_nobody_has_read_hides_no_idle_optimizer(made: str, loss: str) -> None:
    assert is_left(made, loss)


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("config = lib.Loader([first, second])", f"{COMPARED} + config.penalty()"),
        ("config = lib.Loader('config').load()\nconfig.learn_of(first, second)", f"{COMPARED} + config.penalty"),
        ("config = lib.Loader('config').load()\nconfig.take(first, second)", f"{COMPARED} + config.penalty"),
        ("config = lib.Loader('config').load()\nconfig.index([opt_first, opt_second])", f"{COMPARED} + config.penalty"),
        ("config = lib.Loader('config').load()\nlib.add(first.weight, second.weight)", f"{COMPARED} + config.penalty"),
        ("config = lib.Loader('config').load()\nlib.add([opt_first, opt_second])", f"{COMPARED} + config.penalty"),
        ("config = lib.Loader('config').load()\nconfig.nets = [first, second]", f"{COMPARED} + config.penalty"),
    ],
)
def test_what_has_got_networks_may_compute_with_them(made: str, loss: str) -> None:
    assert not is_left(made, loss)
