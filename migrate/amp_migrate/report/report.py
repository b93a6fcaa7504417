"""What a run came to, ready to be shown in any form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from amp_migrate.catalog.rule import Rule
from amp_migrate.frozen import frozen
from amp_migrate.report.change import FileChange
from amp_migrate.report.finding import Finding, Kind


@frozen
class OldestTorch:
    """The oldest PyTorch that was written for.

    Attributes:
        torch: as people write a version.
        said: where that comes from, as a sentence without a full stop; empty where the user said it, or nobody.
    """

    torch: str
    said: str = ""


@frozen
class Report:
    """Everything that there is to say about a run.

    Attributes:
        findings: in order of place.
        files: how many files were looked at.
        changed: the names of the files that were rewritten, or would be.
        written: whether they were, or only would be.
        rules: those that the findings' codes belong to, in the order of codes.
        changes: those that are made together or not at all, each group in order of name; empty where they are made.
        work: how much was done, by what it is called; empty where nobody asked.
        target: what the code was written for; None where nothing is written.
        ignored: how many files, and how many whole folders, were passed over because git ignores them.
    """

    findings: tuple[Finding, ...]
    files: int
    changed: tuple[str, ...]
    written: bool
    rules: tuple[Rule, ...] = ()
    target: OldestTorch | None = None
    work: Mapping[str, int] = field(default_factory=dict)
    changes: tuple[tuple[FileChange, ...], ...] = ()
    ignored: tuple[int, int] = (0, 0)

    @cached_property
    def kinds(self) -> Counter[Kind]:
        """How many findings there are of each kind."""
        return Counter(finding.kind for finding in self.findings)

    @property
    def codes(self) -> Mapping[str, int]:
        """How many findings there are of each rule, in the order of codes."""
        return dict(sorted(Counter(finding.code for finding in self.findings).items()))

    def of_kind(self, kind: Kind) -> tuple[Finding, ...]:
        """The findings of one kind, in order of place."""
        return tuple(finding for finding in self.findings if finding.kind is kind)

    @property
    def silent(self) -> tuple[str, ...]:
        """The files that changed, or would, and of which no finding says so."""
        told = {finding.path for finding in self.findings if finding.kind in (Kind.MIGRATED, Kind.NOTE)}
        return tuple(name for name in self.changed if name not in told)

    @property
    def summary(self) -> str:
        """One sentence: files read and changed, places migrated and left, hazards, errors, what was passed over."""
        verb = "changed" if self.written else "would change"
        left = self.kinds[Kind.LEFT]
        parts = [
            f"{_count(self.files, 'file')} read",
            f"{len(self.changed)} {verb}",
            f"{_count(self.kinds[Kind.MIGRATED], 'place')} {'' if self.written else 'to be '}migrated",
            f"{left} left as {'it was' if left == 1 else 'they were'}",
        ]
        if self.kinds[Kind.HAZARD]:
            parts.append(_count(self.kinds[Kind.HAZARD], "hazard"))
        if self.kinds[Kind.ERROR]:
            parts.append(_count(self.kinds[Kind.ERROR], "error"))
        files, folders = self.ignored
        counted = ((files, "file"), (folders, "folder"))
        passed = " and ".join(_count(number, thing) for number, thing in counted if number)
        return ", ".join(parts) + (f"; {passed} passed over, which git ignores." if passed else ".")


def place(finding: Finding) -> str:
    """`train.py:58:9`, without the parts that the finding does not have."""
    return ":".join([finding.path, *(str(part) for part in (finding.line, finding.column) if part)])


def told(finding: Finding) -> str:
    """A finding in one line, without what to do next."""
    return f"{place(finding)} {finding.code} {finding.message}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
