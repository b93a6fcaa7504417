"""The page about adding a rule is true: its file is a rule, by being where rules are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import amp_migrate.rules
import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.rules import rule
from amp_migrate.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs/add-a-rule.md").read_text(encoding="utf-8")
NAME = "amp640_anomaly_detection.py"
SCRIPT = """\
import torch

torch.autograd.set_detect_anomaly(True)
torch.autograd.set_detect_anomaly(False)

def train(model, optimizer, scaler, loader):
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = (model(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.fixture
def with_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rule of the page among the others."""
    (source,) = re.findall(rf"{NAME}`:\n\n```python\n(.+?)```", PAGE, re.S)
    (tmp_path / NAME).write_text(source, encoding="utf-8")
    monkeypatch.setattr(amp_migrate.rules, "__path__", [*amp_migrate.rules.__path__, str(tmp_path)])
    rule.hazard_rules.cache_clear()
    yield
    rule.hazard_rules.cache_clear()


@pytest.mark.usefixtures("with_the_rule")
def test_the_rule_of_the_page_finds_what_it_is_about_and_nothing_else() -> None:
    plan = migrate_text(SCRIPT, Settings(select=("AMP640",)))
    assert [(each.line, each.code) for each in plan.findings] == [(3, "AMP640")]


def test_without_its_file_there_is_no_such_rule() -> None:
    assert migrate_text(SCRIPT, Settings(select=("AMP640",))).findings == ()
    assert "AMP640" not in {each.code for each in rule.all_rules()}
