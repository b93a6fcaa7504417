"""The page about the architecture is true: its folders and files are there, and its plan is the one that is made."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from amp_migrate.catalog.step_rules import FP32_STEP
from amp_migrate.cli import command
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "migrate/amp_migrate"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", PAGE.partition("## Plans are data")[0], re.M)


def test_every_folder_of_the_package_has_its_row() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert {folder for folder, _ in ROWS} == folders


def test_the_files_to_begin_with_are_there() -> None:
    for folder, files in ROWS:
        for name in re.findall(r"`(\S+)`", files):
            assert (PACKAGE / folder / name).is_file(), f"{folder}/{name}"


def test_every_file_on_the_ways_is_there() -> None:
    ways = PAGE.partition("## Plans are data")[2].partition("## Why")[0]
    named = re.findall(r"`([\w/]+\.py)`", ways)
    assert len(named) > 20
    bases = (PACKAGE, PACKAGE / "steps/apex")
    assert [name for name in named if not any((base / name).is_file() for base in bases)] == []


def test_each_way_is_followed_in_at_most_a_dozen_files() -> None:
    ways = PAGE.partition("## Six ways to follow")[2].partition("## Why")[0].strip().split("\n\n")
    assert len(ways) == 6
    assert all(len(set(re.findall(r"[\w/]+\.py", way))) <= 12 for way in ways)


def imported(path: Path) -> set[str]:
    """The modules that a file imports, and what it takes of them, by their full names."""
    found = set()
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*around, *filter(None, [node.module])))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_no_way_goes_back() -> None:
    """A file that another on its way needs stands behind it, or behind one that needs it, too."""
    for way in PAGE.partition("## Six ways to follow")[2].partition("## Why")[0].strip().split("\n\n"):
        named = dict.fromkeys(re.findall(r"`([\w/]+\.py)`", way))
        bases = (PACKAGE, PACKAGE / "steps/apex")
        files = [next(base / name for base in bases if (base / name).is_file()) for name in named]
        modules = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files]
        for index, module in enumerate(modules[1:], 1):
            before, behind = (any(module in imported(each) for each in part) for part in (files[:index], files[index:]))
            assert before or not behind, f"{module} is named before what needs it"


def test_the_plan_that_is_shown_is_the_one_that_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(f"{FP32_STEP.before}\n")
    result = CliRunner().invoke(command, ["--explain-plan", "train.py"])
    (shown,) = re.findall(r"--explain-plan train\.py\n(.+?\n)```", PAGE, re.S)
    assert result.stdout == shown
