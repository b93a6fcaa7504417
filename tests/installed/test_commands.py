"""The commands of an environment: of this one, or of the one whose folder of commands AMP_MIGRATE_BIN names.

`.ci/environments` runs these on the oldest of everything that pyproject.toml allows, and on every Python that there is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(os.environ.get("AMP_MIGRATE_BIN", Path(sys.executable).parent)).absolute()
FIXTURES = Path(__file__).parents[2] / "fixtures"
STEP = """\
import torch
from torch import nn

model = nn.Linear(32, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 32).cuda()), torch.randint(0, 10, (8,)).cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(command: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "GITHUB_ACTIONS")}
    return subprocess.run(
        [BIN / command, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(STEP, encoding="utf-8")
    return path


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["--list-rules"], ["--explain", "amp101"]])
def test_what_is_only_shown(words: list[str], tmp_path: Path) -> None:
    shown = run("amp-migrate", *words, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout


@pytest.mark.parametrize("command", ["run", "trace", "localize", "doctor", "tune"])
def test_a_verification_shows_its_options_without_torch(command: str, tmp_path: Path) -> None:
    shown = run("amp-verify", command, "--help", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "--device" in shown.stdout


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_every_fixture_becomes_what_an_expert_wrote(dtype: str, tmp_path: Path) -> None:
    before = tmp_path / "fixtures"
    shutil.copytree(FIXTURES, before, ignore=shutil.ignore_patterns("expected", "__pycache__"))
    migrated = run("amp-migrate", str(before), "--dtype", dtype, "--output", "after", cwd=tmp_path)
    assert (migrated.returncode, migrated.stderr) == (0, "")
    expected = {
        path.relative_to(FIXTURES).parts[0] + "/" + path.name: path.read_text(encoding="utf-8")
        for path in FIXTURES.glob(f"*/expected/{dtype}/*.py")
    }
    assert expected
    assert {name: (tmp_path / "after" / name).read_text(encoding="utf-8") for name in expected} == expected


def test_the_exit_code_tells_what_a_check_found(script: Path) -> None:
    assert run("amp-migrate", "--check", ".", cwd=script.parent).returncode == 1
    assert run("amp-migrate", ".", cwd=script.parent).returncode == 0
    assert run("amp-migrate", "--check", ".", cwd=script.parent).returncode == 0
    assert run("amp-migrate", "--undo", ".", cwd=script.parent).returncode == 0
    assert script.read_text(encoding="utf-8") == STEP
    script.write_text("import torch\ndef f(:\n", encoding="utf-8")
    assert run("amp-migrate", "--check", ".", cwd=script.parent).returncode == 2


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "markdown"])
def test_every_form_of_the_report(form: str, script: Path) -> None:
    shown = run("amp-migrate", "--check", "--format", form, ".", cwd=script.parent)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert "AMP501" in shown.stdout
    if form in ("json", "sarif"):
        json.loads(shown.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dtype", "fp8", "."], "'fp8' is not one of"),
        (["--target-torch", "old", "."], "'old' is not a version of PyTorch"),
        (["--target-torch", "1.4", "."], "which is the oldest target"),
        (["--select", "E501", "."], "'E501' is not AMP"),
        (["--explain", "AMP999"], "no rule has the code"),
        (["--workers", "0", "."], "--workers"),
        (["--no-such-option"], "--no-such-option"),
        ([], "name a file or a folder"),
    ],
)
def test_wrong_usage_says_what_is_wrong(words: list[str], said: str, script: Path) -> None:
    shown = run("amp-migrate", *words, cwd=script.parent)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert said in shown.stderr
    assert "Traceback" not in shown.stderr


def test_a_project_sets_its_options(script: Path) -> None:
    settings = (
        'dtype = "bf16"\ntarget-torch = "2.1"\nexclude = ["tests/"]\nworkers = 1\ngitignore = false\nunsafe = true\n'
    )
    config = script.with_name("pyproject.toml")
    config.write_text(f"[tool.amp-migrate]\n{settings}", encoding="utf-8")
    assert "torch.bfloat16" in run("amp-migrate", "--diff", ".", cwd=script.parent).stdout
    config.write_text('[tool.amp-migrate]\ndtype = "fp8"\n', encoding="utf-8")
    shown = run("amp-migrate", "--diff", ".", cwd=script.parent)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "[tool.amp-migrate] dtype: 'fp8' is not one of" in shown.stderr


def test_a_script_is_verified_or_torch_is_asked_for(script: Path) -> None:
    has_torch = run("python", "-c", "import torch, matplotlib, jinja2", cwd=script.parent).returncode == 0
    options = ["--device", "cpu", "--json", "amp.json", *(["--report", "amp.html"] if has_torch else [])]
    shown = run("amp-verify", "run", "train.py", *options, cwd=script.parent)
    if has_torch:
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert json.loads(script.with_name("amp.json").read_text(encoding="utf-8"))["verdict"] == "PASS"
        assert "PASS" in script.with_name("amp.html").read_text(encoding="utf-8")
    else:
        assert shown.returncode == 2
        assert "no torch in " in shown.stderr
