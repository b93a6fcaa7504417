"""A report for code scanning services: SARIF 2.1.0 (OASIS)."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amp_migrate import __version__
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.report import Report

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Kind.ERROR: "error", Kind.LEFT: "warning", Kind.NOTE: "note", Kind.MIGRATED: "note"}


def render(report: Report) -> str:
    """The report as a SARIF log with one run."""
    codes = sorted({finding.code for finding in report.findings})
    driver = {"name": "amp-migrate", "version": __version__, "rules": [{"id": code} for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in report.findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    text = finding.message if not finding.hint else f"{finding.message}. {finding.hint}"
    place: dict[str, Any] = {"artifactLocation": _artifact(finding.path)}
    if finding.line:
        place["region"] = {"startLine": finding.line}
        if finding.column:
            place["region"]["startColumn"] = finding.column
    return {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.kind],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "properties": {"kind": finding.kind.value},
    }


def _artifact(path: str) -> dict[str, str]:
    pure = PurePath(path)
    if pure.is_absolute():
        return {"uri": pure.as_uri()}
    return {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
