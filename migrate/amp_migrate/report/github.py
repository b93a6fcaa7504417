"""A report as GitHub Actions workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.report import Report

_COMMANDS = {
    Kind.ERROR: "error",
    Kind.LEFT: "warning",
    Kind.HAZARD: "warning",
    Kind.NOTE: "notice",
    Kind.MIGRATED: "notice",
}


def render(report: Report) -> str:
    """One workflow command per finding, the totals as a plain line of the log."""
    return "".join(f"{line}\n" for line in [*map(_annotation, report.findings), report.summary])


def _annotation(finding: Finding) -> str:
    properties = {"file": finding.path, "title": finding.code}
    if finding.line:
        properties["line"] = str(finding.line)
    if finding.column:
        properties["col"] = str(finding.column)
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    text = finding.message if not finding.hint else f"{finding.message}\n{finding.hint}"
    return f"::{_COMMANDS[finding.kind]} {listed}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
