"""What this tool writes is free of hazards, and what it reports of them is no failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.hazards.hazard_rules import hazard_rules
from amp_migrate.settings import Settings
from click.testing import CliRunner

FIXTURES = Path(__file__).parents[4] / "fixtures"
EXPECTED = sorted(FIXTURES.glob("*/expected/*/*.py"))
HAZARD = """\
import torch

scaler = torch.amp.GradScaler("cuda")
for loss in losses:
    scaler.scale(loss).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: "-".join(path.relative_to(FIXTURES).parts))
def test_the_expected_texts_of_the_fixtures_have_no_hazards(path: Path) -> None:
    plan = migrate_text(path.read_text(encoding="utf-8"), Settings(select=("AMP6",)), path.name)
    assert (plan.findings, plan.changed) == ((), False)


def test_there_are_expected_texts() -> None:
    assert len(EXPECTED) >= 14


def test_a_hazard_alone_does_not_fail_a_check(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(HAZARD)
    result = CliRunner().invoke(command, ["--check", str(path)])
    assert result.exit_code == 0
    assert f"{path.as_posix()}:6:5 AMP606 optimizer.step() steps past scaler" in result.stdout
    assert "0 left as they were, 1 hazard." in result.stdout


def test_a_repair_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    clip = "    torch.nn.utils.clip_grad_norm_(parameters, 1.0)\n    scaler.step(optimizer)\n    scaler.update()\n"
    path.write_text(HAZARD.replace("    optimizer.step()\n", clip))
    result = CliRunner().invoke(command, ["--check", "--unsafe", str(path)])
    assert result.exit_code == 1
    assert "AMP601 repaired: torch.nn.utils.clip_grad_norm_(parameters, 1.0) sees gradients" in result.stdout


@pytest.mark.parametrize("options", [("--ignore", "AMP6"), ("--ignore", "AMP606"), ("--select", "AMP1")])
def test_hazards_obey_select_and_ignore(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = tmp_path / "train.py"
    path.write_text(HAZARD)
    result = CliRunner().invoke(command, ["--check", *options, str(path)])
    assert "AMP6" not in result.stdout


@pytest.mark.parametrize("pragma", ["# amp-migrate: ignore", "# amp-migrate: ignore[AMP606]"])
def test_hazards_obey_pragmas(pragma: str) -> None:
    text = HAZARD.replace("optimizer.step()", f"optimizer.step()  {pragma}")
    assert migrate_text(text, Settings()).findings == ()


def test_every_hazard_rule_shows_what_to_write() -> None:
    assert [each.rule.code for each in hazard_rules() if not (each.rule.before and each.rule.after)] == []
