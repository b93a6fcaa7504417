"""A report for a person: one line per place, as compilers and linters print them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.plain import plain
from amp_migrate.report.report import Report, place

# Where the reason for a finding is, at its end: there is another one for each, and one reason.
_PLACE = re.compile(r" \((?:line |[^()]+:)\d+\)$")


def render(report: Report) -> str:
    """The report as lines, the totals last."""
    return "".join(f"{line}\n" for line in [*places(report), *_totals(report)])


def _totals(report: Report) -> Iterator[str]:
    if report.silent:
        # Named here, because nothing in them is a place of its own: a caller that passes on what another file needs.
        yield plain(f"{'changed' if report.written else 'would change'} with them: {', '.join(report.silent)}")
    yield report.summary
    yield from _reasons(report)
    if report.target is not None and report.target.said:
        yield plain(f"{report.target.said}.")
    yield from _more(report)
    if report.work:
        counts = {**report.work, **{f"findings of {code}": number for code, number in report.codes.items()}}
        width = max(len(f"{number:,}") for number in counts.values())
        yield from (f"{number:>{width},} {what}" for what, number in counts.items())


def places(report: Report) -> Iterator[str]:
    """A line for each place, and one for what is to be done there."""
    alike: dict[tuple[str, str, str, Kind], list[Finding]] = {}
    if not report.written and report.of_kind(Kind.MIGRATED):
        yield "what would be done:"
    for finding in report.findings:
        alike.setdefault((finding.path, finding.code, finding.message, finding.kind), []).append(finding)
    for finding in report.findings:
        more = ""
        if finding.kind in (Kind.MIGRATED, Kind.NOTE):
            # The same thing in many places of a file is said once, where it is first.
            first, *others = alike[finding.path, finding.code, finding.message, finding.kind]
            if finding is not first:
                continue
            if others:
                lines = ", ".join(str(each.line) for each in others)
                more = f" (also in line{'s' if len(others) > 1 else ''} {lines})"
        yield plain(f"{place(finding)} {finding.code} {finding.message}{more}")
        if finding.hint:
            yield plain(f"    {finding.hint}")


def _reasons(report: Report) -> Iterator[str]:
    left = Counter((finding.code, _PLACE.sub("", finding.message)) for finding in report.of_kind(Kind.LEFT))
    for (code, message), times in sorted(left.items()) if left.total() > 1 else ():
        yield plain(f"  left: {code} {message}{f' ({times} times)' if times > 1 else ''}")


def _more(report: Report) -> Iterator[str]:
    codes = [finding.code for finding in report.findings if finding.kind in (Kind.HAZARD, Kind.LEFT)]
    if codes:
        yield f"More about a code: amp-migrate --explain {codes[0]}"
