"""What pre-commit and GitHub Actions run is a command line that amp-migrate takes."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import amp_migrate
import pytest
from amp_migrate.cli import command
from click.testing import CliRunner

ROOT = Path(amp_migrate.__file__).parents[2]
OLD = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
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


def hooks() -> dict[str, list[str]]:
    """The entry of each pre-commit hook by its id."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    pairs = zip(re.findall(r"^- id: (.+)$", text, re.M), re.findall(r"^  entry: (.+)$", text, re.M), strict=True)
    return {name: shlex.split(entry) for name, entry in pairs}


def script() -> str:
    """The last step of the action as the shell gets it."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    (body,) = re.findall(r"^      run: \|\n((?:        .+\n)+)", text, re.M)
    return re.sub(r"^        ", "", body, flags=re.M)


@pytest.mark.parametrize(("hook", "code", "changes"), [("amp-migrate", 1, True), ("amp-migrate-check", 1, False)])
def test_a_hook_rewrites_or_only_checks(
    hook: str, code: int, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(OLD)
    program, *args = hooks()[hook]
    assert program == "amp-migrate"
    assert CliRunner().invoke(command, [*args, "train.py"]).exit_code == code
    assert (Path("train.py").read_text() != OLD) == changes


def test_the_hook_that_rewrites_moves_no_training_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(STEP)
    assert CliRunner().invoke(command, [*hooks()["amp-migrate"][1:], "train.py"]).exit_code == 0
    assert Path("train.py").read_text() == STEP
    assert CliRunner().invoke(command, ["train.py"]).exit_code == 0
    assert "torch.float16" in Path("train.py").read_text()


def test_hooks_see_a_project_as_a_whole() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert text.count("require_serial: true") == len(hooks()) == 2


@pytest.mark.skipif(os.name == "nt", reason="the action's shell is bash")
@pytest.mark.parametrize(
    ("text", "check", "options", "code"),
    [
        (OLD, "true", "", 1),
        (OLD, "false", "", 0),
        (OLD, "true", "--ignore AMP103", 0),
        ("import torch\n", "true", "", 0),
        (OLD + "torch.cuda.amp.autocast(\n", "false", "", 2),
        (OLD, "true", "--no-such-option", 2),
    ],
)
def test_the_action_annotates_and_fails_where_it_should(
    text: str, check: str, options: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(text)
    program = tmp_path / "bin/amp-migrate"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom amp_migrate.cli import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "migrate"),
        "AMP_PATHS": "train.py",
        "AMP_OPTIONS": options,
        "AMP_CHECK": check,
    }
    result = subprocess.run(
        ["bash", "-e", "-c", script()], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, result.stderr
    assert (tmp_path / "train.py").read_text() == text
    if (text, options) == (OLD, ""):
        assert "::notice file=train.py,title=AMP103,line=2" in result.stdout


def test_the_action_installs_itself_and_takes_what_its_script_uses() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    inputs = re.findall(r"^  ([a-z-]+):\n    description:", text, re.M)
    assert sorted(inputs) == sorted(set(re.findall(r"inputs\.([a-z-]+)", text)))
    assert 'pip install --quiet "$GITHUB_ACTION_PATH"' in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_completion(shell: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "migrate"), "_AMP_MIGRATE_COMPLETE": f"{shell}_source"}
    result = subprocess.run(
        [sys.executable, "-c", "from amp_migrate.cli import main; main()"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert f"_AMP_MIGRATE_COMPLETE={shell}_complete" in result.stdout.replace('"', "")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("amp-migrate --dtype b", "plain,bf16\n"),
        ("amp-migrate --list-rules --explain AMP101 --version --dtype b", "plain,bf16\n"),
        ("amp-migrate . --dtype b", "plain,bf16\n"),  # where the project's settings cannot be read
    ],
)
def test_options_and_their_values_are_completed(words: str, completed: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.amp-migrate\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "migrate"),
        "_AMP_MIGRATE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "from amp_migrate.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == (completed, "")
