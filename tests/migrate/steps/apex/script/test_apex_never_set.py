"""Flags of Apex that are set only where native AMP is not set up instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate as migrate_paths
from amp_migrate.settings import Settings

Check = Callable[..., Any]

SCRIPT = """\
import importlib.util

_found = importlib.util.find_spec("apex") is not None


def has_apex():
    return _found


if has_apex():
    from apex import amp


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.use_apex = False
        self.use_amp = False
        if args.fp16 and not args.sharded:
            if args.backend == "amp":
                self.use_amp = True
                self.scaler = torch.amp.GradScaler("cuda")
            else:
                if not has_apex():
                    raise ImportError("no Apex")
                self.use_apex = True

    def wrap(self, model, training=True):
        if self.use_apex and training:
            model, self.optimizer = amp.initialize(model, self.optimizer, opt_level=self.args.level)
        return model

    def train(self, batches):
        model = self.wrap(self.model)
        for x in batches:
            self.training_step(model, x)
            if self.use_amp:
                self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(
                amp.master_params(self.optimizer) if self.use_apex else model.parameters(), 1.0
            )
            if self.use_amp:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
            model.zero_grad()

    def training_step(self, model, x):
        model.train()
        if self.use_amp:
            with torch.amp.autocast("cuda", dtype=torch.float16):
                loss = model(x).mean()
        else:
            loss = model(x).mean()
        if self.use_amp:
            self.scaler.scale(loss).backward()
        elif self.use_apex:
            with amp.scale_loss(loss, self.optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
"""


def test_what_the_flag_is_chosen_beside_is_always_done(migrate: Check) -> None:
    after = migrate(SCRIPT).after
    assert "apex import" not in after
    assert "use_apex" in after  # nobody is kept from asking for it
    assert "self.use_apex = True" not in after
    assert (
        "        if args.fp16 and not args.sharded:\n"
        "            self.use_amp = True\n"
        '            self.scaler = torch.amp.GradScaler("cuda")\n'
        "\n    def wrap(self, model, training=True):\n        return model\n"
    ) in after
    assert "            nn.utils.clip_grad_norm_(\n                model.parameters(), 1.0\n            )\n" in after
    assert ("            self.scaler.scale(loss).backward()\n        else:\n            loss.backward()\n") in after
    assert migrate(after).after.endswith(after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.use_amp = False\n", "        self.use_amp = False\n        self.use_apex = args.apex\n"),
        ("        if args.fp16", "        if args.old:\n            self.use_apex = True\n        if args.fp16"),
        ('                self.scaler = torch.amp.GradScaler("cuda")\n', "                self.scaler = make(args)\n"),
        ("        if self.use_amp:\n            with", "        if args.half:\n            with"),
        ("            else:\n                if not has", "            elif args.apex:\n                if not has"),
    ],
)  # fmt: skip
def test_a_flag_that_is_set_otherwise_or_native_amp_that_is(old: str, new: str, migrate: Check) -> None:
    script = SCRIPT.replace(old, new)
    assert script != SCRIPT
    after = migrate(script).after
    assert "with amp.scale_loss(loss, self.optimizer)" in after


def test_native_amp_that_a_part_of_the_script_asks_more_for(migrate: Check) -> None:
    script = f"{SCRIPT}    def ask(self, x):\n        if x is not None:\n            if self.use_amp:\n"
    script += (
        '                with torch.amp.autocast("cuda", dtype=torch.float16):\n                    self.model(x)\n'
    )
    assert "amp.scale_loss" not in migrate(script).after


def test_a_flag_that_another_file_sets(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(f"import torch\nfrom torch import nn\n{SCRIPT}")
    (tmp_path / "main.py").write_text("from trainer import Trainer\n\nt = Trainer(m, a)\nt.use_apex = True\n")
    outcome = migrate_paths([tmp_path], Settings())
    plan = outcome.plan_of(tmp_path / "trainer.py")
    assert plan is not None
    assert "with amp.scale_loss(loss, self.optimizer)" in plan.after
    (tmp_path / "main.py").write_text("from trainer import Trainer\n\nt = Trainer(m, a)\nprint(t.use_apex)\n")
    plan = migrate_paths([tmp_path], Settings()).plan_of(tmp_path / "trainer.py")
    assert plan is not None
    assert "with amp.scale_loss(loss, self.optimizer)" not in plan.after


def test_a_result_that_is_nested_too_deeply_to_be_looked_at(migrate: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("amp_migrate.prove.precision._read", too_deep)
    plan = migrate(SCRIPT)
    assert "with amp.scale_loss(loss, self.optimizer)" in plan.after
    assert "nested too deeply to be migrated" in " ".join(each.message for each in plan.findings)
