"""Every code has a rule that says all there is to know about it, and says it wherever rules are shown."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import amp_migrate
import pytest
from amp_migrate.catalog import apex_rules, engine_rules, name_rules, step_rules
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.cli import command
from amp_migrate.hazards.hazard_rules import hazard_rules
from amp_migrate.renames.rename import renaming_rules
from amp_migrate.report.rules.rules_markdown import body, document
from amp_migrate.report.rules.rules_text import page, table
from amp_migrate.rulebook import all_rules, nearest_rule, rules_of
from click.testing import CliRunner

PACKAGE = Path(amp_migrate.__file__).parent
ROOT = PACKAGE.parents[1]
PAGES = (apex_rules, engine_rules, name_rules, step_rules)
CODES = [rule.code for rule in all_rules()]


def nodes_of(*sources: str) -> list[ast.AST]:
    """All that is in some texts."""
    return [node for source in sources for node in ast.walk(ast.parse(source))]


def codes_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The codes that stand as strings of their own."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"AMP\d{3}", node.value):
            yield node.value


# Data that says which rule it belongs to.
TABLES = {"AMP310", "AMP320", "AMP330", "AMP340"}


def used_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of the catalog's pages that are used: `FP32_STEP.code`."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "code" and isinstance(node.value, ast.Name):
            yield node.value.id


def test_every_page_has_findings_and_no_code_is_written_out_anywhere_else() -> None:
    pages = [
        path for path in PACKAGE.rglob("*.py") if path.parent.name == "catalog" or re.match(r"amp\d{3}_", path.name)
    ]
    others = [path for path in PACKAGE.rglob("*.py") if path not in pages and "verify" not in path.parts]
    nodes = nodes_of(*(path.read_text(encoding="utf-8") for path in others))
    assert set(codes_in(nodes)) == TABLES
    used = set(used_in(nodes))
    named = {name: value.code for page in PAGES for name, value in vars(page).items() if isinstance(value, Rule)}
    own = {*(each.rule.code for each in renaming_rules()), *(each.rule.code for each in hazard_rules())}
    assert {named[name] for name in used & named.keys()} | TABLES | own == set(CODES)


def test_the_search_for_codes_finds_them() -> None:
    assert list(codes_in(nodes_of("Finding(name, 1, 2, 'AMP999', kind)\n'like AMP1 and AMP998'\n"))) == ["AMP999"]
    assert list(used_in(nodes_of("Finding(name, 1, 2, STEP.code, kind)"))) == ["STEP"]


def test_codes_and_names_are_used_once_and_files_are_named_after_them() -> None:
    assert len(set(CODES)) == len({rule.name for rule in all_rules()}) == len(CODES)
    files = {path.name[:6].upper() for path in PACKAGE.rglob("amp*.py") if re.match(r"amp\d{3}_", path.name)}
    assert files == {*(each.rule.code for each in renaming_rules()), *(each.rule.code for each in hazard_rules())}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_says_what_it_promises(rule: Rule) -> None:
    assert re.fullmatch(r"AMP\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.summary
    assert "\n" not in rule.summary
    assert not rule.summary.endswith(".")
    assert rule.why.endswith(".")
    assert rule.after or rule.safety is Safety.MANUAL
    assert not rule.before.endswith("\n")


def test_rules_that_change_nothing_show_how_to_write_it_where_there_is_one_way() -> None:
    shown = {rule.code for rule in all_rules() if rule.after and rule.safety is Safety.MANUAL}
    assert shown == {each.rule.code for each in hazard_rules() if each.rule.safety is Safety.MANUAL}


def test_rules_are_found_by_their_codes() -> None:
    assert [rule.code for rule in rules_of({"AMP501", "AMP101"})] == ["AMP101", "AMP501"]


@pytest.mark.parametrize(("code", "nearest"), [("AMP101", "AMP101"), ("AMP500", "AMP501"), ("AMP29", "AMP290")])
def test_the_nearest_rule_begins_alike(code: str, nearest: str) -> None:
    assert nearest_rule(code).code == nearest


RULE = Rule(
    "AMP999",
    "a-name",
    "torch.x is old",
    "- x(1)\n- y\n+ z(1)",
    "Because.",
    since=(2, 3),
    sources=("https://torch.org/x",),
)


def test_the_table_has_a_line_for_each_rule() -> None:
    assert table([RULE]) == "code    name    safety  summary\nAMP999  a-name  safe    torch.x is old\n"


def test_a_page_tells_everything() -> None:
    assert page(RULE) == (
        "AMP999 a-name\n\ntorch.x is old.\n\nBecause.\n\nBefore:\n    x(1)\n    y\n\nAfter:\n    z(1)\n\n"
        "Safety: safe (the new code does what the old code did)\nNeeds: PyTorch 2.3 or newer\n"
        "Source: https://torch.org/x\n"
    )


def test_the_document_has_an_anchor_for_each_rule() -> None:
    text = document([RULE])
    assert f'\n<a id="amp999"></a>\n\n## AMP999 a-name\n\n{body(RULE)}' in text
    assert "| [AMP999](#amp999) | a-name | safe | torch.x is old |" in text
    assert text.endswith("\nSource: <https://torch.org/x>\n")


def test_an_example_is_a_diff_or_what_has_no_second_side() -> None:
    both = replace(
        RULE,
        example="""
          import torch
        - x(1)
        +
        + if torch:
        +     z(1)

          y
        """,
    )
    assert (both.before, both.after) == ("import torch\nx(1)\n\ny", "import torch\n\nif torch:\n    z(1)\n\ny")
    alone = replace(
        RULE,
        example="""
        if x:
            y
        """,
    )
    assert (alone.before, alone.after) == ("if x:\n    y", "")


def test_a_summary_becomes_a_sentence_but_code_keeps_its_letters() -> None:
    manual = Rule("AMP998", "b", "a step that stays", "", "Because.", Safety.MANUAL)
    assert (RULE.sentence, manual.sentence) == ("torch.x is old", "A step that stays")
    assert "Needs" not in page(manual)


def test_a_rule_that_has_to_be_asked_for_says_how() -> None:
    asked = Rule("AMP997", "c", "a thing", "", "Because.", Safety.MANUAL, on_request=True)
    sentence = "It is applied on request only: --select AMP997."
    assert page(asked).endswith(f"\n{sentence}\n")
    assert body(asked).endswith(f". {sentence}\n")
    assert "on request" not in page(RULE) + body(RULE)


def test_an_example_that_takes_options_says_which() -> None:
    optional = replace(RULE, options=("--dtype", "bf16"))
    assert "\nAfter, with --dtype bf16:\n" in page(optional)
    assert "\nAfter, with --dtype bf16:\n" in body(optional)


def test_list_rules_shows_all() -> None:
    result = CliRunner().invoke(command, ["--list-rules"])
    assert (result.exit_code, result.stdout) == (0, table(all_rules()))


@pytest.mark.parametrize("code", ["AMP101", "amp101"])
def test_explain_shows_the_page_of_one(code: str) -> None:
    result = CliRunner().invoke(command, ["--explain", code])
    assert (result.exit_code, result.stdout) == (0, page(rules_of({"AMP101"})[0]))


def test_explain_of_an_unknown_code_names_the_nearest() -> None:
    result = CliRunner().invoke(command, ["--explain", "AMP500"])
    assert result.exit_code == 2
    assert "no rule has the code 'AMP500'; the nearest is AMP501, and --list-rules shows all" in result.stderr


def test_the_documentation_is_what_the_rules_say() -> None:
    generated = runpy.run_path(str(ROOT / "docs/generate.py"))["generated"]()
    assert len(generated) == 1
    stale = [path.name for path, text in generated.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run python docs/generate.py"
