"""A report for a pull request or a job summary: Markdown, what needs a hand first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.report import Report, place

_SECTIONS = (
    (Kind.ERROR, "Errors"),
    (Kind.HAZARD, "Hazards"),
    (Kind.LEFT, "Left as they were"),
    (Kind.NOTE, "Worth a look"),
    (Kind.MIGRATED, "Migrated"),
)


def render(report: Report) -> str:
    """The report as a heading, the totals and a table for each kind of finding that there is."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "## amp-migrate"
    yield ""
    yield report.summary
    if report.target is not None and report.target.said:
        yield ""
        yield _cell(f"{report.target.said}.")
    for kind, title in _SECTIONS:
        findings = report.of_kind(kind)
        if findings:
            yield ""
            yield f"### {title} ({len(findings)})"
            yield ""
            yield from _table(findings)


def _table(findings: Iterable[Finding]) -> Iterator[str]:
    yield "| Place | Code | What | Next |"
    yield "|---|---|---|---|"
    for finding in findings:
        cells = (f"`{place(finding)}`", finding.code, _cell(finding.message), _cell(finding.hint))
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Text with nothing in it that a table or HTML would take for its own, but with its `code` spans."""
    parts = re.split(r"(`[^`]*`)", text)
    escaped = (
        part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        for part in parts
    )
    return "".join(escaped).replace("|", "\\|")
