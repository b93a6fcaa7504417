"""Applies the hazard rules to the files of a project: what may be repaired is, the rest is told."""

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


class HazardFinder:
    """Finds the hazards of one script after the other, and repairs once what several of them run.

    Args:
        draft_of: the draft of a file, a script's own or that of a model.
        dtype: what the files will compute in: the hazards of float16 are not told of what goes to bfloat16.
    """

    def __init__(self, draft_of: Callable[[File], Draft], dtype: Dtype, wanted: Wanted) -> None:
        self._draft_of = draft_of
        self._dtype = dtype
        self._wanted = wanted
        self._repaired: set[tuple[str, cst.CSTNode]] = set()

    def find(self, script: Script) -> Iterator[Finding]:
        """Repair or tell every hazard of a script, and of the models that it may run."""
        for rule in hazard_rules():
            is_gone = rule.float16_only and self._dtype is Dtype.BF16
            is_wanted = script.settings.asks_for if rule.rule.on_request else script.settings.applies
            if is_gone or not (script.has_amp or rule.of_models) or not is_wanted(rule.rule.code):
                continue
            for hazard in rule.detect(script):
                if self._wanted(hazard.file or script.file, hazard.node, rule.rule.code):
                    yield self._finding(script, rule, hazard)

    def _finding(self, script: Script, rule: HazardRule, hazard: Hazard) -> Finding:
        file = hazard.file or script.file
        line, column = file.tree.position(hazard.node)
        held_back = rule.rule.safety is Safety.UNSAFE and not script.settings.unsafe
        if hazard.repair is None or held_back:
            hint = hazard.hint if hazard.repair is None else f"{hazard.hint}, or run with --unsafe, which does it"
            return Finding(file.name, line, column, rule.rule.code, Kind.HAZARD, hazard.message, hint)
        place = rule.rule.code, hazard.node
        if place not in self._repaired:
            self._repaired.add(place)
            hazard.repair(self._draft_of(file))
        return Finding(file.name, line, column, rule.rule.code, Kind.MIGRATED, f"repaired: {hazard.message}")
