"""Rules that a project does not want in some of its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.cli import command
from amp_migrate.path_ignores import PathIgnores
from click.testing import CliRunner, Result

STEP = """\
import torch

model = torch.nn.Linear(1, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in range(9):
    loss = model(torch.ones(1).cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NAME = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "tests/train.py", "legacy/old/train.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(STEP)
    Path("tests/name.py").write_text(NAME)


def changed(*words: str, config: str = "") -> list[str]:
    Path("pyproject.toml").write_text(config)
    texts = {path: path.read_text() for path in Path().rglob("*.py")}
    result: Result = CliRunner().invoke(command, [*words, "."])
    assert result.exit_code == 0, result.output
    return sorted(path.as_posix() for path, text in texts.items() if path.read_text() != text)


def test_a_rule_is_not_applied_where_the_project_does_not_want_it() -> None:
    config = (
        '[tool.amp-migrate.per-path-ignores]\n"tests/" = ["AMP5"]\n"old/*.py" = ["AMP501"]\n"*/old/*" = ["AMP501"]\n'
    )
    assert changed(config=config) == ["tests/name.py", "train.py"]


def test_the_command_line_takes_pairs() -> None:
    words = ["--per-path-ignores", "tests/:AMP1,AMP5", "--per-path-ignores", "/train.py:AMP501"]
    assert changed(*words) == ["legacy/old/train.py"]


def test_a_hazard_is_not_told_where_nobody_wants_to_hear_of_it() -> None:
    Path("tests/wrong.py").write_text(
        "import torch\n\n\ndef step(scaler, optimizer, loss, model):\n    scaler.scale(loss).backward()\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    scaler.step(optimizer)\n    scaler.update()\n"
    )
    words = ["--check", "tests/wrong.py", "--fail-on", "hazard"]
    assert CliRunner().invoke(command, words).exit_code == 1
    assert CliRunner().invoke(command, [*words, "--per-path-ignores", "tests/:AMP6"]).exit_code == 0


def test_patterns_are_relative_to_the_project_and_reach_no_file_outside(tmp_path: Path) -> None:
    ignores = PathIgnores((("/a.py", ("AMP5",)), ("b/", ("AMP501",))), tmp_path / "project")
    assert ignores.ignoring("AMP501", str(tmp_path / "project/a.py")) == "/a.py"
    assert ignores.ignoring("AMP101", str(tmp_path / "project/a.py")) == ""
    assert ignores.ignoring("AMP501", str(tmp_path / "project/sub/a.py")) == ""
    assert ignores.ignoring("AMP501", str(tmp_path / "project/sub/b/a.py")) == "b/"
    assert ignores.ignoring("AMP501", str(tmp_path / "b/a.py")) == ""


@pytest.mark.parametrize("value", ["tests/", ":AMP5", "tests/:E501"])
def test_what_is_no_pair_is_wrong_usage(value: str) -> None:
    assert CliRunner().invoke(command, ["--per-path-ignores", value, "."]).exit_code == 2
