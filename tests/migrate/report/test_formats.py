"""The reports that programs read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.message import Message
from typing import Any

import pytest
from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.formats import Format, render
from amp_migrate.report.forms import json_report
from amp_migrate.report.report import Report
from amp_migrate.report.rules.doc_link import _documentation

FINDINGS = (
    Finding("a.py", 0, 0, "AMP001", Kind.ERROR, "no such file or folder"),
    Finding("my pkg/tr\u00e4in.py", 3, 9, "AMP501", Kind.MIGRATED, "runs under `autocast`"),
    Finding("my pkg/tr\u00e4in.py", 8, 1, "AMP590", Kind.LEFT, "a | b <c>, 100%: *so*", "write `x_y | z` by hand"),
    Finding("my pkg/tr\u00e4in.py", 9, 0, "AMP504", Kind.NOTE, "look"),
)
RULES = (
    Rule("AMP001", "unreadable", "a file is broken", "", "Mend it.", Safety.MANUAL),
    Rule("AMP501", "step", "a step", "- a()\n+ b()", "It is faster."),
    Rule("AMP504", "note", "torch.x", "", "Look.", Safety.MANUAL),
    Rule("AMP590", "left", "a step that stays", "", "By hand.", Safety.MANUAL),
)
REPORT = Report(FINDINGS, 3, ("my pkg/tr\u00e4in.py",), written=True, rules=RULES)
EMPTY = Report((), 0, (), written=False)


def violations(value: Any, schema: Mapping[str, Any], where: str = "$") -> list[str]:
    """What is wrong with `value`, by the keywords of JSON Schema that the report's schema uses."""
    types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
    wrong: list[str] = []
    for keyword, rule in schema.items():
        if keyword in ("$schema", "title", "description"):
            continue
        if keyword == "type":
            names = [rule] if isinstance(rule, str) else rule
            good = any(type(value) is types[name] for name in names)
        elif keyword in ("const", "enum"):
            good = value in (rule if keyword == "enum" else [rule])
        elif keyword == "minimum":
            good = value is None or value >= rule
        elif keyword == "pattern":
            good = re.search(rule, value) is not None
        elif keyword == "required":
            good = value is None or set(rule) <= set(value)
        elif keyword == "properties":
            good = True
            for name in (value or {}).keys() & rule.keys():
                wrong += violations(value[name], rule[name], f"{where}.{name}")
        elif keyword == "items":
            good = True
            for index, item in enumerate(value):
                wrong += violations(item, rule, f"{where}[{index}]")
        else:
            raise AssertionError(f"the schema uses {keyword}, which this test does not know")
        if not good:
            wrong.append(f"{where}: {keyword}")
    return wrong


@pytest.mark.parametrize("report", [REPORT, EMPTY])
def test_json_has_the_shape_of_its_published_schema(report: Report) -> None:
    assert violations(json.loads(render(report, Format.JSON)), json_report.schema()) == []


def test_the_schema_refuses_what_it_should() -> None:
    document = json.loads(render(REPORT, Format.JSON))
    del document["summary"]["left"]
    document["version"] = 2
    document["findings"][0]["line"] = 0
    document["findings"][1]["code"] = "E501"
    document["findings"][2]["kind"] = "guess"
    del document["rules"][3]["link"]
    document["rules"][1]["safety"] = "perhaps"
    assert sorted(violations(document, json_report.schema())) == [
        "$.findings[0].line: minimum",
        "$.findings[1].code: pattern",
        "$.findings[2].kind: enum",
        "$.rules[1].safety: enum",
        "$.rules[3]: required",
        "$.summary: required",
        "$.version: const",
    ]


def test_json_tells_everything() -> None:
    document = json.loads(render(REPORT, Format.JSON))
    assert document["summary"] == {
        "files": 3, "changed": 1, "written": True, "migrated": 1, "left": 1, "note": 1, "hazard": 0, "error": 1,
        "ignored_files": 0, "ignored_folders": 0,
    }  # fmt: skip
    assert document["changed"] == ["my pkg/tr\u00e4in.py"]
    assert document["findings"][0]["line"] is None
    assert document["findings"][2] == {
        "path": "my pkg/tr\u00e4in.py",
        "line": 8,
        "column": 1,
        "code": "AMP590",
        "kind": "left",
        "message": "a | b <c>, 100%: *so*",
        "hint": "write `x_y | z` by hand",
    }


def test_sarif_has_what_the_standard_requires() -> None:
    log = json.loads(render(REPORT, Format.SARIF))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [result["level"] for result in run["results"]] == ["error", "note", "warning", "note"]
    for result, finding in zip(run["results"], FINDINGS, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert result["message"]["text"].startswith(finding.message)
        region = result["locations"][0]["physicalLocation"].get("region", {})
        # The standard counts from 1: a place that a finding does not have must be absent.
        assert region.get("startLine", 0) == finding.line
        assert region.get("startColumn", 0) == finding.column


def test_sarif_describes_the_rules() -> None:
    rules = json.loads(render(REPORT, Format.SARIF))["runs"][0]["tool"]["driver"]["rules"]
    assert rules[3]["name"] == "left"
    assert rules[3]["shortDescription"] == {"text": "A step that stays."}
    assert "By hand." in rules[3]["help"]["text"]
    assert "```python\na()\n```" in rules[1]["help"]["markdown"]


@pytest.mark.parametrize(
    ("documentation", "page"),
    [
        ("https://example.org/docs/", "https://example.org/docs/rules/#amp501"),
        ("https://example.org/o/r/blob/main/docs", "https://example.org/o/r/blob/main/docs/rules.md#amp501"),
    ],
)
def test_reports_link_to_the_documentation_that_the_package_names(
    documentation: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = Message()
    named["Project-URL"] = "Source, https://example.org/code"
    named["Project-URL"] = f"Documentation, {documentation}"
    monkeypatch.setattr("amp_migrate.report.rules.doc_link.metadata", lambda name: named)
    _documentation.cache_clear()
    try:
        log, document = (json.loads(render(REPORT, form)) for form in (Format.SARIF, Format.JSON))
    finally:
        _documentation.cache_clear()
    assert log["runs"][0]["tool"]["driver"]["rules"][1]["helpUri"] == page
    assert document["rules"][1]["link"] == page


def test_reports_have_no_link_where_the_package_names_no_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amp_migrate.report.rules.doc_link.metadata", lambda name: Message())
    _documentation.cache_clear()
    try:
        log, document = (json.loads(render(REPORT, form)) for form in (Format.SARIF, Format.JSON))
    finally:
        _documentation.cache_clear()
    assert "helpUri" not in log["runs"][0]["tool"]["driver"]["rules"][1]
    assert document["rules"][1]["link"] is None
    assert document["rules"][1]["page"].startswith("AMP501 step\n")


def test_sarif_names_files_as_addresses() -> None:
    absolute = Finding("/srv/a b.py", 1, 1, "AMP501", Kind.LEFT, "x")
    log = json.loads(render(Report((*FINDINGS, absolute), 1, (), True), Format.SARIF))
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in log["runs"][0]["results"]]
    assert places[1] == {"uri": "my%20pkg/tr%C3%A4in.py", "uriBaseId": "%SRCROOT%"}
    assert places[-1] == {"uri": "file:///srv/a%20b.py"}


def test_github_annotations_escape_what_ends_them() -> None:
    odd = Finding("a,b:c.py", 2, 0, "AMP590", Kind.LEFT, "100% a::b, c", "next")
    assert render(Report((*FINDINGS[:2], odd), 2, (), True), Format.GITHUB).splitlines() == [
        "::error file=a.py,title=AMP001::no such file or folder",
        "::notice file=my pkg/tr\u00e4in.py,title=AMP501,line=3,col=9::runs under `autocast`",
        "::warning file=a%2Cb%3Ac.py,title=AMP590,line=2::100%25 a::b, c%0Anext",
        "2 files read, 0 changed, 1 place migrated, 1 left as it was, 1 error.",
    ]


def test_markdown_puts_what_was_left_before_what_was_done() -> None:
    text = render(REPORT, Format.MARKDOWN)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## amp-migrate",
        "### Errors (1)",
        "### Left as they were (1)",
        "### Worth a look (1)",
        "### Migrated (1)",
    ]
    assert (
        "| `my pkg/tr\u00e4in.py:8:1` | AMP590 | a \\| b &lt;c&gt;, 100%: \\*so\\* | write `x_y \\| z` by hand |\n"
        in text
    )


def test_markdown_of_a_run_with_nothing_to_say_is_the_totals() -> None:
    assert render(EMPTY, Format.MARKDOWN) == (
        "## amp-migrate\n\n0 files read, 0 would change, 0 places to be migrated, 0 left as they were.\n"
    )


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (Format.JSON, '"kind": "hazard"'),
        (Format.SARIF, '"level": "warning"'),
        (Format.GITHUB, "::warning file=a.py"),
        (Format.MARKDOWN, "### Hazards (1)"),
    ],
)
def test_a_hazard_warns_in_every_form(form: Format, shown: str) -> None:
    hazard = Finding("a.py", 3, 1, "AMP601", Kind.HAZARD, "clipped too early", "unscale first")
    assert shown in render(Report((hazard,), 1, (), written=False), form)
