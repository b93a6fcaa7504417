"""Applies the hazard rules to one file: what may be repaired is, the rest is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.wanted import Wanted
from amp_migrate.hazards.hazard import Hazard
from amp_migrate.hazards.script import Script
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.rule import Safety
from amp_migrate.rules.rule import HazardRule, hazard_rules
from amp_migrate.settings import Dtype
from amp_migrate.steps.draft import Draft


def find_hazards(
    script: Script,
    draft_of: Callable[[File], Draft],
    dtype: Dtype,
    repaired: set[tuple[str, cst.CSTNode]],
    wanted: Wanted,
) -> Iterator[Finding]:
    """Repair or tell every hazard of a file, and of the models that it may run.

    Args:
        dtype: what the file will compute in: the hazards of float16 are not told of what goes to bfloat16.
        repaired: what has been repaired for other scripts, by code and place; what is for this one is added.
    """
    for rule in hazard_rules():
        is_gone = rule.float16_only and dtype is Dtype.BF16
        is_wanted = script.settings.asks_for if rule.rule.on_request else script.settings.applies
        if is_gone or not (script.has_amp or rule.of_models) or not is_wanted(rule.rule.code):
            continue
        for hazard in rule.detect(script):
            if wanted(hazard.file or script.file, hazard.node, rule.rule.code):
                yield _finding(script, draft_of, rule, hazard, repaired)


def _finding(
    script: Script,
    draft_of: Callable[[File], Draft],
    rule: HazardRule,
    hazard: Hazard,
    repaired: set[tuple[str, cst.CSTNode]],
) -> Finding:
    file = hazard.file or script.file
    line, column = file.tree.position(hazard.node)
    held_back = rule.rule.safety is Safety.UNSAFE and not script.settings.unsafe
    if hazard.repair is None or held_back:
        hint = hazard.hint if hazard.repair is None else f"{hazard.hint}, or run with --unsafe, which does it"
        return Finding(file.name, line, column, rule.rule.code, Kind.HAZARD, hazard.message, hint)
    place = rule.rule.code, hazard.node
    if place not in repaired:
        repaired.add(place)
        hazard.repair(draft_of(file))
    return Finding(file.name, line, column, rule.rule.code, Kind.MIGRATED, f"repaired: {hazard.message}")
