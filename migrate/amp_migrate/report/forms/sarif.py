"""A report for code scanning services: SARIF 2.1.0 (OASIS)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amp_migrate import __version__
from amp_migrate.catalog.rule import Rule
from amp_migrate.report.change import FileChange
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.plain import encodable
from amp_migrate.report.report import Report
from amp_migrate.report.rules.doc_link import doc_link
from amp_migrate.report.rules.rules_markdown import body
from amp_migrate.report.rules.rules_text import page

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Kind.ERROR: "error", Kind.LEFT: "warning", Kind.HAZARD: "warning", Kind.NOTE: "note", Kind.MIGRATED: "note"}


def render(report: Report) -> str:
    """The report as a SARIF log with one run."""
    driver = {"name": "amp-migrate", "version": __version__, "rules": [_rule(rule) for rule in report.rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": list(_results(report)),
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    link = doc_link(rule)
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.sentence}."},
        "help": {"text": page(rule), "markdown": body(rule)},
        **({"helpUri": link} if link else {}),
    }


def _results(report: Report) -> Iterator[dict[str, Any]]:
    """A result for each finding; the first place that is changed has the fix of all that changes together with it."""
    places = {rule.code: index for index, rule in enumerate(report.rules)}
    open_ = list(report.changes)
    for finding in report.findings:
        result = _result(finding, places)
        own = next((group for group in open_ if finding.path in {change.path for change in group}), None)
        if finding.kind is Kind.MIGRATED and own is not None:
            open_.remove(own)
            result["fixes"] = [_fix(own)]
        yield result


def _fix(group: Iterable[FileChange]) -> dict[str, Any]:
    changes = [
        {
            "artifactLocation": _artifact(change.path),
            "replacements": [
                {
                    "deletedRegion": {
                        "startLine": hunk.line,
                        "startColumn": hunk.column,
                        "endLine": hunk.end_line,
                        "endColumn": hunk.end_column,
                    },
                    **({"insertedContent": {"text": hunk.text}} if hunk.text else {}),
                }
                for hunk in change.hunks
            ],
        }
        for change in group
    ]
    return {"description": {"text": "All that has to change together"}, "artifactChanges": changes}


def _result(finding: Finding, places: Mapping[str, int]) -> dict[str, Any]:
    text = finding.message if not finding.hint else f"{finding.message}. {finding.hint}"
    place: dict[str, Any] = {"artifactLocation": _artifact(finding.path)}
    if finding.line:
        place["region"] = {"startLine": finding.line}
        if finding.column:
            place["region"]["startColumn"] = finding.column
    return {
        "ruleId": finding.code,
        **({"ruleIndex": places[finding.code]} if finding.code in places else {}),
        "level": _LEVELS[finding.kind],
        "message": {"text": encodable(text)},
        "locations": [{"physicalLocation": place}],
        "properties": {"kind": finding.kind.value},
    }


def _artifact(path: str) -> dict[str, str]:
    path = encodable(path)
    pure = PurePath(path)
    if pure.is_absolute():
        return {"uri": pure.as_uri()}
    return {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
