"""What Apex's switch is read from may be another object behind `amp.initialize`: it is kept where it was asked."""

from __future__ import annotations

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Settings

_FUNCTION = """\
import torch
from apex import amp
from models import Net


def run(args, model, loader):
    model.cuda()
    {first}
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    if {asked}:
        model, opt = amp.initialize(model, opt, opt_level="O1")
    {later}
    for x, y in loader:
        opt.zero_grad()
        loss = (model(x) - y).square().mean()
        with amp.scale_loss(loss, opt) as scaled_loss:
            scaled_loss.backward()
        opt.step()


run(arguments, Net(), data)
"""
_CLASS = """\
import torch
from apex import amp
from models import Net


class Trainer:
    def __init__(self, model):
        self.model = model.cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if self.model.is_train:
            self.model, self.opt = amp.initialize(self.model, self.opt, opt_level="O1")
        {later}

    def step(self, x, y):
        self.opt.zero_grad()
        loss = (self.model(x) - y).square().mean()
        with amp.scale_loss(loss, self.opt) as scaled_loss:
            scaled_loss.backward()
        self.opt.step()

    def spread(self):
        {spread}


trainer = Trainer(Net())
trainer.spread()
for x, y in data:
    trainer.step(x, y)
"""
_WRAPPED = "self.model = torch.nn.DataParallel(self.model)"


@pytest.mark.parametrize(
    ("first", "asked", "later"),
    [
        ("pass", "model.is_train", "model = torch.nn.parallel.DistributedDataParallel(model)"),
        ("cfg = args", "cfg.fp16", "cfg = vars(args)"),
        ("pass", "args.fp16", "args.fp16 = None"),
        ("pass", "args.fp16", "args, rest = vars(args), None"),
    ],
)
def test_switch_is_kept_in_a_variable(first: str, asked: str, later: str) -> None:
    after = migrate_text(_FUNCTION.format(first=first, asked=asked, later=later), Settings()).after
    assert f"    amp_enabled = bool({asked})\n" in after
    assert 'GradScaler("cuda", enabled=amp_enabled)' in after
    assert "dtype=torch.float16, enabled=amp_enabled):" in after


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("args = vars(args)", "pass"),
        ("pass", "args.rate = 0.1"),
        ("pass", "model = torch.nn.parallel.DistributedDataParallel(model)"),
    ],
)
def test_switch_of_what_stays_is_asked_where_it_is_needed(first: str, later: str) -> None:
    after = migrate_text(_FUNCTION.format(first=first, asked="args.fp16", later=later), Settings()).after
    assert "amp_enabled" not in after
    assert "dtype=torch.float16, enabled=bool(args.fp16)):" in after


@pytest.mark.parametrize(("later", "spread"), [(_WRAPPED, "pass"), ("pass", _WRAPPED)])
def test_another_method_asks_the_scaler(later: str, spread: str) -> None:
    after = migrate_text(_CLASS.format(later=later, spread=spread), Settings()).after
    assert 'self.scaler = torch.amp.GradScaler("cuda", enabled=bool(self.model.is_train))' in after
    assert "dtype=torch.float16, enabled=self.scaler.is_enabled()):" in after


def test_another_method_asks_what_stays() -> None:
    after = migrate_text(_CLASS.format(later="pass", spread="pass"), Settings()).after
    assert "dtype=torch.float16, enabled=bool(self.model.is_train)):" in after
