"""A report for programs: JSON of a fixed, versioned shape."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from amp_migrate import __version__
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.plain import encodable
from amp_migrate.report.report import Report
from amp_migrate.report.rules.rules_json import summary

# Goes up when a field is renamed, removed or changes its meaning; a new field alone does not move it.
VERSION = 1


def render(report: Report) -> str:
    """The report as one JSON object, indented, in the shape that `schema` describes."""
    document = {
        "version": VERSION,
        "tool": {"name": "amp-migrate", "version": __version__},
        "summary": {
            "files": report.files,
            "changed": len(report.changed),
            "written": report.written,
            **{kind.value: report.kinds[kind] for kind in Kind},
            "ignored_files": report.ignored[0],
            "ignored_folders": report.ignored[1],
        },
        "target": None
        if report.target is None
        else {"torch": report.target.torch, "said": encodable(report.target.said) or None},
        "statistics": {"work": dict(report.work), "codes": dict(report.codes)} if report.work else None,
        "changed": list(map(encodable, report.changed)),
        "findings": [_finding(finding) for finding in report.findings],
        "rules": [summary(rule) for rule in report.rules],
    }
    return json.dumps(document, indent=2) + "\n"


def schema() -> Mapping[str, Any]:
    """The JSON Schema (draft 2020-12) of what `render` gives."""
    text = files("amp_migrate.report").joinpath(f"report-v{VERSION}.schema.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def _finding(finding: Finding) -> dict[str, str | int | None]:
    return {
        "path": encodable(finding.path),
        "line": finding.line or None,
        "column": finding.column or None,
        "code": finding.code,
        "kind": finding.kind.value,
        "message": encodable(finding.message),
        "hint": encodable(finding.hint) or None,
    }
