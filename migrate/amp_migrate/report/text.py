"""Findings and totals for a person: one line per place, as compilers and linters print them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_migrate.report.finding import Finding, Kind


@dataclass(frozen=True)
class Totals:
    """What a run came to, in numbers.

    Attributes:
        files: files that were looked at.
        changed: files that were rewritten, or would be.
        written: whether they were, or only would be.
    """

    files: int
    changed: int
    written: bool


def render(findings: Sequence[Finding], totals: Totals) -> str:
    """The report of a run, ending in a newline."""
    return "".join(f"{line}\n" for line in [*_places(findings), *_summary(findings, totals)])


def _places(findings: Iterable[Finding]) -> Iterator[str]:
    migrated: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        if finding.kind is Kind.MIGRATED:
            migrated.setdefault((finding.path, finding.code, finding.message), []).append(finding)
    for finding in findings:
        # The same thing done in many places of a file is said once, where it is done first.
        same = migrated.get((finding.path, finding.code, finding.message), [finding])
        if finding is not same[0] and finding.kind is Kind.MIGRATED:
            continue
        others = [str(each.line) for each in same[1:]] if finding.kind is Kind.MIGRATED else []
        more = f" (also in line{'s' * (len(others) > 1)} {', '.join(others)})" if others else ""
        yield f"{place(finding)} {finding.code} {finding.message}{more}"
        if finding.hint:
            yield f"    {finding.hint}"


def place(finding: Finding) -> str:
    """`train.py:58:9`, without the parts that the finding does not have."""
    return ":".join([finding.path, *(str(part) for part in (finding.line, finding.column) if part)])


def _summary(findings: Sequence[Finding], totals: Totals) -> Iterator[str]:
    kinds = Counter(finding.kind for finding in findings)
    verb = "changed" if totals.written else "would change"
    parts = [f"{_count(totals.files, 'file')} read", f"{totals.changed} {verb}"]
    parts.append(f"{_count(kinds[Kind.MIGRATED], 'place')} {'' if totals.written else 'to be '}migrated")
    parts.append(f"{kinds[Kind.LEFT]} left as they were" if kinds[Kind.LEFT] != 1 else "1 left as it was")
    if kinds[Kind.ERROR]:
        parts.append(_count(kinds[Kind.ERROR], "error"))
    yield ", ".join(parts) + "."
    left = Counter((finding.code, finding.message) for finding in findings if finding.kind is Kind.LEFT)
    for (code, message), times in sorted(left.items()):
        yield f"  left: {code} {message}{f' ({times} times)' if times > 1 else ''}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
