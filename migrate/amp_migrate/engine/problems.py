"""What the engine itself has to say about a file, as findings."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

from amp_migrate.catalog.apex_rules import APEX_COPY
from amp_migrate.catalog.engine_rules import REFUSED_RESULT, UNREADABLE_FILE
from amp_migrate.engine.source import Source, SourceError
from amp_migrate.report.finding import Finding, Kind

UNREADABLE = UNREADABLE_FILE.code  # the file cannot be found, read, decoded or parsed
OUR_FAULT = "a fault of this tool, please report it"
PLEASE_REPORT = f"{OUR_FAULT}; the file is untouched"
REFUSED = REFUSED_RESULT.code  # a result did not pass its checks or could not be written


def unreadable(name: str, error: SourceError) -> Finding:
    """The finding for a file that cannot be read or parsed."""
    return Finding(name, error.line, error.column, UNREADABLE, Kind.ERROR, error.message, error.hint)


def a_copy_of_apex(name: str) -> Finding:
    """The finding for a copy of Apex, by its `setup.py`."""
    message = "a copy of Apex: neither it nor its examples and tests are migrated"
    return Finding(name, 0, 0, APEX_COPY.code, Kind.NOTE, message, "delete it once nothing imports it")


def refused(name: str, message: str, hint: str = "") -> Finding:
    """The finding for a file whose migrated text was thrown away, the file untouched."""
    return Finding(name, 0, 0, REFUSED, Kind.ERROR, message, hint)


def failure(name: str, error: Exception) -> Finding:
    """The finding for a file that makes this tool fail."""
    if isinstance(error, RecursionError):
        return refused(name, "nested too deeply to be migrated", "the file is untouched")
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
    message = " ".join(str(error).split())
    return refused(name, f"internal error: {type(error).__name__}: {message} ({place})", PLEASE_REPORT)


def in_the_file(source: Source, finding: Finding) -> Finding:
    """A finding about the text of `source` as one about the file, whose lines may be others."""
    line, words = source.place(finding.line)
    return replace(finding, line=line, message=words + finding.message)


def os_error(error: OSError, what: str = "cannot be read") -> SourceError:
    """An error of the operating system as one line."""
    reason = (error.strerror or str(error)).lower()
    return SourceError(f"{what}: {reason}")
