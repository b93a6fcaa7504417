"""The page about adding a rule is true: its rule is taken away in a copy of the repository, and added as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from amp_migrate.rulebook import nearest_rule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-a-rule.md").read_text(encoding="utf-8")
# The files of the page, by their names in it.
FILES = dict(re.findall(r"`((?:migrate|tests)/[\w/]+\.py)`[.:].*?```python\n(.+?)```", PAGE, re.S))
# What a command of the page needs of the repository.
PARTS = ("migrate", "shim", "docs", "README.md", "CHANGELOG.md", "pyproject.toml", "Makefile", "mkdocs.yml")


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder / each) for each in ("migrate", "shim"))}
    command = [sys.executable, "-m", *args]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, as far as the page needs it, with the page's files in it, and no documentation of its rule."""
    folder = tmp_path_factory.mktemp("repository")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    for name in (
        "conftest.py",
        "migrate/conftest.py",
        "migrate/test_rulebook.py",
        "migrate/catalog",
        "migrate/hazards",
    ):
        source, target = ROOT / "tests" / name, folder / "tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    rules = folder / "docs/rules.md"
    lines = rules.read_text(encoding="utf-8").splitlines(keepends=True)
    rules.write_text("".join(line for line in lines if "AMP615" not in line), encoding="utf-8")
    return folder


def test_the_page_has_a_rule_and_its_tests_as_they_are() -> None:
    assert [Path(name).name for name in FILES] == ["amp615_anomaly_detection.py", "test_anomaly_detection.py"]
    assert {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES} == FILES


def test_the_tests_of_the_page_pass_and_fail_without_the_rule(copy: Path) -> None:
    rule, test = FILES
    result = run(copy, "pytest", "-q", "-p", "no:cacheprovider", test)
    assert "11 passed" in result.stdout, result.stdout
    (copy / rule).rename(copy / "away")
    result = run(copy, "pytest", "-q", "-p", "no:cacheprovider", test)
    (copy / "away").rename(copy / rule)
    assert "7 failed, 4 passed" in result.stdout, result.stdout


def test_the_plan_of_its_example_is_the_one_shown(copy: Path) -> None:
    (copy / "train.py").write_text(f"{nearest_rule('AMP615').before}\n")
    result = run(copy, "amp_migrate", "--unsafe", "--explain-plan", "train.py")
    (shown,) = re.findall(r"--explain-plan train\.py\n(.+?\n)```", PAGE)
    assert result.stdout == shown


def test_its_page_is_missed_until_it_is_generated_and_its_example_runs(copy: Path) -> None:
    all_tests = ("pytest", "-q", "-p", "no:cacheprovider", "tests/migrate/test_rulebook.py", "tests/migrate/catalog")
    stale = run(copy, *all_tests, "-k", "AMP615 or documentation")
    assert "FAILED tests/migrate/test_rulebook.py::test_the_documentation_is_what_the_rules_say" in stale.stdout
    subprocess.run(
        [sys.executable, "docs/generate.py"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "migrate")},
        check=True,
    )
    result = run(copy, *all_tests, "-k", "AMP615 or documentation")
    assert " passed" in result.stdout
    assert "failed" not in result.stdout, result.stdout
    assert (copy / "docs/rules.md").read_text(encoding="utf-8") == (ROOT / "docs/rules.md").read_text(encoding="utf-8")
