"""The preset that moves names only, and where else it can be asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.rulebook import all_rules
from amp_migrate.settings import DEPRECATED, Settings
from click.testing import CliRunner

EVALUATION = """
def evaluate(x):
    with autocast():
        return model(x)

"""
BEFORE = f"""\
import torch
from torch.cuda.amp import GradScaler, autocast

model = torch.nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

{EVALUATION}
for x in range(9):
    loss = model(torch.ones(1).cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
AFTER = BEFORE.replace("torch.cuda.amp", "torch.amp").replace(
    "autocast():", 'autocast(device_type="cuda", dtype=torch.float16):'
)


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(BEFORE)
    return path


def migrate(*words: str, config: str = "") -> None:
    Path("pyproject.toml").write_text(f"[tool.amp-migrate]\n{config}")
    result = CliRunner().invoke(command, [*words, "."])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("words", "config"), [(["--only-deprecated"], ""), ([], "only-deprecated = true\n")])
def test_names_move_and_float32_training_stays(words: list[str], config: str, script: Path) -> None:
    migrate(*words, config=config)
    assert script.read_text() == AFTER


@pytest.mark.parametrize("config", ['select = ["AMP5"]\n', 'dtype = "bf16"\n'])
def test_the_command_line_goes_before_what_the_project_selects(config: str, script: Path) -> None:
    migrate("--only-deprecated", config=config)
    assert script.read_text() == AFTER


def test_what_is_selected_on_the_command_line_goes_before_the_project_s_preset(script: Path) -> None:
    script.write_text(BEFORE[: BEFORE.index("from")] + BEFORE[BEFORE.index("\nmodel") :].replace(EVALUATION, ""))
    migrate("--select", "AMP5", config="only-deprecated = true\n")
    assert "scaler.step(optimizer)" in script.read_text()


def test_the_preset_is_every_rule_about_a_deprecated_name_and_no_other() -> None:
    applied = {rule.code for rule in all_rules() if Settings(select=DEPRECATED).applies(rule.code)}
    assert applied == {rule.code for rule in all_rules() if "deprecated" in rule.summary}
