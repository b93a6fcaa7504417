"""The page about the verdict says of each check what the reports say."""

from __future__ import annotations

import re
from pathlib import Path

from amp_migrate.verify.judge.meanings import MEANINGS

PAGE = Path(__file__).parents[2] / "docs" / "verdict.md"
SOURCES = Path(__file__).parents[2] / "migrate" / "amp_migrate" / "verify" / "judge"


def test_the_table_of_checks_is_the_meanings() -> None:
    rows = re.findall(r"^\| (\w+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    table = {check: meaning.replace("`", "") for check, meaning in rows if check in MEANINGS}
    assert table == MEANINGS


def test_every_check_that_is_made_has_a_meaning() -> None:
    made = {name for path in SOURCES.rglob("*.py") for name in re.findall(r'Check\(\s*"(\w+)"', path.read_text())}
    assert made == set(MEANINGS)
