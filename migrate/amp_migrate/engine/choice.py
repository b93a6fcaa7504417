"""What the user does not want is neither said nor done: selected and ignored rules, and the pragmas of a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from amp_migrate.engine.planner import FilePlan
from amp_migrate.engine.problems import in_the_file
from amp_migrate.engine.unwanted import why_unwanted
from amp_migrate.pragmas import read_pragmas
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings

PARTLY_UNWANTED = "AMP003"  # a file was left whole, because a part of it is not wanted


def only_wanted(plans: Iterable[FilePlan], settings: Settings) -> tuple[tuple[FilePlan, ...], dict[Path, Finding]]:
    """`plans` without the findings that nobody wants, and a finding for each file that must therefore stay as it is.

    A change cannot be taken out of a text after it was planned. Where one that is not wanted is in a plan, the whole
    file is to be left.
    """
    kept: list[FilePlan] = []
    unwanted: dict[Path, Finding] = {}
    for each in plans:
        pragmas = read_pragmas(each.source.text)
        if pragmas.skips_file:
            if each.changed:
                line = next((finding.line for finding in each.findings), 0)
                unwanted[each.source.path] = _left(each, line, why_unwanted("", line, settings, pragmas))
                kept.append(each)
            continue
        wanted = []
        for finding in each.findings:
            reason = why_unwanted(finding.code, finding.line, settings, pragmas)
            if not reason or finding.kind is Kind.ERROR:
                wanted.append(finding)
            elif finding.kind is Kind.MIGRATED and each.changed:
                unwanted.setdefault(each.source.path, _left(each, finding.line, reason))
        kept.append(replace(each, findings=tuple(wanted)))
    return tuple(kept), unwanted


def _left(each: FilePlan, line: int, reason: str) -> Finding:
    message = f"file left as it was: {reason}, and the rest belongs together with it"
    return in_the_file(each.source, Finding(each.source.name, line, 0, PARTLY_UNWANTED, Kind.LEFT, message))
