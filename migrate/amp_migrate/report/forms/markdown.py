"""A report for a pull request or a job summary: Markdown, what needs a hand first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.plain import plain
from amp_migrate.report.report import Report, place

_SECTIONS = (
    (Kind.ERROR, "Errors"),
    (Kind.HAZARD, "Hazards"),
    (Kind.LEFT, "Left as they were"),
    (Kind.NOTE, "Worth a look"),
    (Kind.MIGRATED, "Migrated"),
)


_ENTITIES = {"<": "&lt;", ">": "&gt;"}


def render(report: Report) -> str:
    """The report as a heading, the totals and a table for each kind of finding that there is."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "## amp-migrate"
    yield ""
    yield report.summary
    if report.target is not None and report.target.said:
        yield ""
        yield cell(f"{report.target.said}.")
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
        cells = (code(place(finding)), finding.code, cell(finding.message), cell(finding.hint))
        yield f"| {' | '.join(cells)} |"


def code(text: str) -> str:
    """Text as a code span in a cell of a table, whatever is in it."""
    line = plain(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    blank = " " if line[:1] in ("`", " ") or line[-1:] in ("`", " ") else ""  # one on each side is taken off again
    return f"{fence}{blank}{line}{blank}{fence}".replace("|", "\\|")


def cell(text: str) -> str:
    """Text with nothing in it that a table, Markdown or HTML would take for its own, but with its `code` spans."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        code(part[1:-1]) if part[:1] == "`" == part[-1:] and len(part) > 2 else words(part) for part in parts
    )


def words(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = plain(text).replace("&", "&amp;")
    escaped = re.sub(r"[\\`*_\[\]<>|~!$]", lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), text)
    # Neither somebody who is told nor an issue that is named, but what stood in a file.
    return re.sub(r"([@#])(?=\w)", "\\1&#8203;", escaped)
