"""An object that initializes Apex, scales losses and clips for a training that it is handed to."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate
from amp_migrate.settings import Settings
from amp_migrate.steps.read import value_calls

BASE = """
import torch

class Accelerator:
    def __init__(self, config):
        self.config = config

    def backward_step(self, loss):
        loss.backward()

    def optimizer_step(self, optimizer, model, limit):
        torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
"""
APEX = """
import torch
from apex import amp
from accelerator import Accelerator

class ApexAccelerator(Accelerator):
    def __init__(self, config):
        super().__init__(config)
        self.level = config.level

    def set_up(self, model, optimizer):
        return self.prepare(model, optimizer)

    def prepare(self, model, optimizer):
        model, optimizer = amp.initialize(model, optimizer, opt_level=self.level)
        return model, optimizer

    def backward_step(self, loss, optimizer):
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()

    def optimizer_step(self, optimizer, model, limit):
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), limit)
"""
TRAIN = """
import torch
from apex_accelerator import ApexAccelerator
{imports}

def train(model, loader, optimizer, accelerator):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        accelerator.backward_step(loss, optimizer)
        accelerator.optimizer_step(optimizer, model, 1.0)
        optimizer.step()

def main(config, loader):
    model = torch.nn.Linear(8, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accelerator = ApexAccelerator(config)
    {set_up}
    for _ in range(3):
        train(model, loader, optimizer, {given})

main(None, [])
"""
SET_UP = "model, optimizer = accelerator.set_up(model, optimizer)"


def run(tmp_path: Path, **parts: str) -> tuple[dict[str, str], set[str]]:
    """What becomes of the files that change, and what is told."""
    text = TRAIN.format(**{"imports": "", "set_up": SET_UP, "given": "accelerator", **parts})
    for name, content in {"accelerator": BASE, "apex_accelerator": APEX, "train": text}.items():
        (tmp_path / f"{name}.py").write_text(content)
    outcome = migrate([tmp_path], Settings())
    return {each.source.path.stem: each.after for each in outcome.changed}, {
        f"{each.code} {each.message}: {each.hint}" for each in outcome.findings
    }


def test_the_training_has_the_scaler_from_where_the_object_gets_the_optimizer(tmp_path: Path) -> None:
    after, told = run(tmp_path)
    made = 'scaler = torch.amp.GradScaler("cuda", enabled=amp_enabled)'
    assert f'{SET_UP}\n    amp_enabled = accelerator.level != "O0"\n    {made}\n' in after["train"]
    assert 'enabled=accelerator.level != "O0"):\n            loss = model(x).mean()\n' in after["train"]
    assert "scaler.unscale_(optimizer)\n        accelerator.optimizer_step(optimizer, model, 1.0)" in after["train"]
    assert "def backward_step(self, loss, optimizer, scaler):" in after["apex_accelerator"]
    # By a method of what the callers pass, no model's name says what the optimizer was made of.
    assert "optimizer.param_groups" in after["apex_accelerator"]
    assert not any(each.startswith("AMP290") for each in told)


def test_a_function_that_nobody_calls_takes_a_scaler_from_whoever_does(tmp_path: Path) -> None:
    step = TRAIN[TRAIN.index("def train") : TRAIN.index("def main")]
    after, told = run(tmp_path, imports=step.replace("def train", "def never"))
    assert "def never(model, loader, optimizer, scaler, accelerator):" in after["train"]
    assert after["train"].count("scaler.unscale_(optimizer)\n        accelerator.optimizer_step(") == 2
    assert not any(each.startswith("AMP290") for each in told)


def test_an_object_that_is_handed_on_by_a_function_in_between(tmp_path: Path) -> None:
    between = "def between(*, loader, model, optimizer, helper):\n    train(model, loader, optimizer, helper)"
    text = TRAIN.replace("train(model, loader, optimizer, {given})", "CALL").replace(
        "def main", f"{between}\n\ndef main"
    )
    call = "between(model=model, loader=loader, optimizer=optimizer, helper=accelerator)"
    (tmp_path / "accelerator.py").write_text(BASE)
    (tmp_path / "apex_accelerator.py").write_text(APEX)
    (tmp_path / "train.py").write_text(text.format(imports="", set_up=SET_UP).replace("CALL", call))
    after = {each.source.path.stem: each.after for each in migrate([tmp_path], Settings()).changed}
    assert "scaler.unscale_(optimizer)\n        accelerator.optimizer_step(" in after["train"]


@pytest.mark.parametrize(("given", "moves"), [("accelerator", True), ("others.accelerator()", False)])
def test_a_program_that_is_too_large_is_followed_by_what_is_passed(
    given: str, moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_calls._Calls, "is_complete", False)
    after, _ = run(tmp_path, imports="import others", given=given)
    assert ("scaler.step(optimizer)" in after.get("train", "")) is moves


def test_the_base_whose_method_nobody_calls_says_so(tmp_path: Path) -> None:
    _, told = run(tmp_path)
    (left,) = [each for each in told if each.startswith("AMP590")]
    assert "no call that runs this backward_step() is among the files that were given: " in left


@pytest.mark.parametrize(
    ("imports", "given"), [("import others", "others.accelerator()"), ("import others", "others.first or accelerator")]
)
def test_an_object_that_nobody_knows_keeps_the_script_on_the_shim(imports: str, given: str, tmp_path: Path) -> None:
    after, told = run(tmp_path, imports=imports, given=given)
    assert "from amp_shim import amp" in after["apex_accelerator"]
    assert any(each.startswith("AMP290") for each in told)


def test_what_is_set_up_twice_has_no_one_place_for_the_scaler(tmp_path: Path) -> None:
    after, _ = run(tmp_path, set_up=f"{SET_UP}\n    {SET_UP}")
    assert "from amp_shim import amp" in after["apex_accelerator"]
