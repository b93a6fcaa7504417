"""Which findings are to end a run with an exit code of their own, in CI."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from amp_migrate.report.finding import Finding, Kind


class FailOn(str, Enum):
    """What makes a run fail."""

    CHANGE = "change"  # a file was changed, or would be
    HAZARD = "hazard"
    LEFT = "left"
    NOTE = "note"


def fails(on: FailOn, findings: Iterable[Finding], changed: bool) -> bool:
    """Whether a run fails for one of the reasons.

    Args:
        findings: everything that the run has to say.
        changed: whether any file was changed, or would be.
    """
    return changed if on is FailOn.CHANGE else any(finding.kind is Kind(on.value) for finding in findings)
