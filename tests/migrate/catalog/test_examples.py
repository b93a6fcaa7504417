"""The example of every rule is a whole script: it gives the rule's own finding, and becomes what the page shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amp_migrate.catalog.apex_rules import APEX_COPY
from amp_migrate.catalog.engine_rules import REFUSED_RESULT
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.cli import command
from amp_migrate.rulebook import all_rules
from click.testing import CliRunner

# One tells of a fault of the tool, the other of a whole folder: there is no script that shows it.
WITHOUT = {REFUSED_RESULT.code, APEX_COPY.code}
RULES = [rule for rule in all_rules() if rule.code not in WITHOUT]


def migrated(text: str, rule: Rule, folder: Path) -> tuple[str, set[str]]:
    """What becomes of a script, and the codes of what is said about it."""
    script = folder / "train.py"
    script.write_text(f"{text}\n")
    result = CliRunner().invoke(command, [str(script), "--format", "json", *rule.options])
    return script.read_text(), {finding["code"] for finding in json.loads(result.stdout)["findings"]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_an_example_gives_its_finding_and_becomes_what_is_shown(rule: Rule, tmp_path: Path) -> None:
    after, codes = migrated(rule.before, rule, tmp_path)
    assert rule.code in codes
    if rule.safety is Safety.MANUAL and rule.after:
        assert after == f"{rule.before}\n"
        assert rule.code not in migrated(rule.after, rule, tmp_path)[1]
    elif rule.after:
        assert after == f"{rule.after}\n"


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.code != "AMP001"], ids=lambda rule: rule.code)
def test_both_sides_of_an_example_are_programs(rule: Rule) -> None:
    for side in (rule.before, rule.after):
        compile(side, rule.code, "exec")


def test_only_what_no_script_shows_has_no_example() -> None:
    assert {rule.code for rule in all_rules() if not rule.before} == WITHOUT


def test_every_rule_about_code_says_where_it_is_from() -> None:
    without = {rule.code for rule in all_rules() if not rule.sources}
    assert without == {"AMP001", "AMP002"}
    for rule in all_rules():
        assert all(source.startswith("https://") for source in rule.sources)
