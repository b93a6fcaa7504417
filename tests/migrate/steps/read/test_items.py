"""Models, criteria and optimizers under keys of a dictionary, wherever the class puts them there."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

TRAINER = """\
import torch
from torch import nn, optim


class Trainer:
    def __init__(self, data):
        self.parts = {{"net": None, "optim": None, "criterion": {first}}}
        self.data = data

    def fill(self, kind):
        self.parts["net"] = nn.Linear(4, 1).cuda()
        {later}

    def train(self):
        self.parts["optim"] = optim.Adam(self.parts['net'].parameters())
        for x, y in self.data:
            self.parts["optim"].zero_grad()
            out = {out}
            loss = self.parts['criterion'](out, y.cuda())
            loss.backward()
            self.parts["optim"].step()
"""


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("None", 'self.parts["criterion"] = nn.MSELoss() if kind == "news" else nn.L1Loss()'),
        ("None", 'self.parts["criterion"] = nn.MSELoss()'),
        ("nn.MSELoss()", "self.kind = kind"),
    ],
)
def test_what_a_key_holds_is_known_as_of_an_attribute(first: str, later: str) -> None:
    for out in ('self.parts["net"](x.cuda())', 'self.parts["net"].forward(x.cuda())'):
        after = migrate_text(TRAINER.format(first=first, later=later, out=out), Settings()).after
        region = 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):'
        assert f"            {region}\n                out = {out}\n                loss = self.parts['crit" in after
        assert 'self.scaler.step(self.parts["optim"])\n            self.scaler.update()\n' in after
        assert migrate_text(after, Settings()).after == after


def test_a_refused_criterion_under_a_key_stays_outside_of_the_region() -> None:
    text = TRAINER.format(
        first="None", later='self.parts["criterion"] = nn.BCELoss()', out='self.parts["net"](x.cuda()).sigmoid()'
    )
    after = migrate_text(text, Settings()).after
    assert "\n            loss = self.parts['criterion'](out, y.cuda())\n            self.scaler.scale(" in after


def test_what_nobody_puts_under_a_key_is_not_known() -> None:
    text = TRAINER.format(first="None", later="self.kind = kind", out='self.parts["other"](x.cuda())')
    plan = migrate_text(text, Settings())
    assert plan.after == text
    assert [each.code for each in plan.findings] == ["AMP590"]
