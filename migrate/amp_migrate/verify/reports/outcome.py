"""Everything that a report shows: the set-up, the evidence and the verdict of one verification."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amp_migrate.report.finding import Finding
from amp_migrate.verify.judge.evidence import Evidence
from amp_migrate.verify.judge.verdict import Assessment
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Trace
from amp_migrate.verify.runs.kinds import Arm
from amp_migrate.verify.runs.process import RunResult
from amp_migrate.verify.runs.setup import Setup


@dataclass(frozen=True)
class Outcome:
    """One verification.

    Attributes:
        findings: what the migration said, where the harness made it itself.
        command: the command line that asked for the verification.
        date: when it was asked for, to the minute; empty where that is not to be told.
    """

    setup: Setup
    evidence: Evidence
    assessment: Assessment
    findings: tuple[Finding, ...] = ()
    command: str = ""
    date: str = ""

    @property
    def name(self) -> str:
        """What reports call the verification: the original script's file, and its folder's name."""
        script = self.setup.scripts[Arm.ORIGINAL].file
        return f"{script.parent.name}/{script.name}"

    @property
    def environment(self) -> Mapping[str, Any]:
        """Interpreter, torch and device, as the original script's run saw them."""
        return self.evidence.original.trace.environment

    @property
    def census(self) -> tuple[CensusRow, ...]:
        """How often each operation ran in which dtype, in both scripts; operations that moved come first."""
        rows = _census_rows(self.evidence.original.trace, self.evidence.migrated.trace)
        return tuple(sorted(rows, key=lambda row: (not row.moved, row.operation)))


@dataclass(frozen=True)
class CensusRow:
    """Calls of one operation by dtype of its result, over the first steps."""

    operation: str
    original: Mapping[str, int]
    migrated: Mapping[str, int]

    @property
    def moved(self) -> bool:
        """Whether the migrated script runs it in a dtype that the original does not."""
        return not self.migrated.keys() <= self.original.keys()

    @property
    def low(self) -> bool:
        """Whether the migrated script runs it in half precision."""
        return bool(self.migrated.keys() & LOW_DTYPES)


def _census_rows(original: Trace, migrated: Trace) -> list[CensusRow]:
    counts: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for side, trace in enumerate((original, migrated)):
        for operation, dtype, count in trace.census:
            counts.setdefault(operation, ({}, {}))[side][dtype] = count
    return [CensusRow(operation, *sides) for operation, sides in counts.items()]


def command_line(result: RunResult) -> str:
    """The command of a run, as one could type it."""
    return shlex.join(result.command)
