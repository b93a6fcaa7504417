"""A report as GitHub Actions workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Mapping

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.plain import plain
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


def command(name: str, properties: Mapping[str, object], text: str) -> str:
    """One workflow command: `::name property=value,...::text`, escaped as GitHub reads it."""
    listed = ",".join(f"{key}={_property(plain(str(value)))}" for key, value in properties.items())
    data = _data(plain(text, keep="\n"))
    return f"::{name} {listed}::{data}"


def _annotation(finding: Finding) -> str:
    properties: dict[str, object] = {"file": finding.path, "title": finding.code}
    if finding.line:
        properties["line"] = finding.line
    if finding.column:
        properties["col"] = finding.column
    text = "\n".join(plain(each) for each in (finding.message, finding.hint) if each)
    return command(_COMMANDS[finding.kind], properties, text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
