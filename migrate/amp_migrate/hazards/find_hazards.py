"""Applies the hazard rules to the files of a project: what may be repaired is, the rest is told."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.hazards.hazard_rules import hazard_rules
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.plan.move import Move
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Dtype
from amp_migrate.wishes import Wishes


def find_hazards(script: Script, dtype: Dtype, wishes: Wishes) -> Iterator[tuple[Hazard, Move]]:
    """Every hazard of a script, and of the models that it may run, with what becomes of it.

    Args:
        dtype: what the files will compute in: the hazards of float16 are not told of what goes to bfloat16.
    """
    for rule in hazard_rules():
        is_gone = rule.float16_only and dtype is Dtype.BF16
        is_wanted = script.settings.asks_for if rule.rule.on_request else script.settings.applies
        if is_gone or not (script.has_amp or rule.of_models) or not is_wanted(rule.rule.code):
            continue
        for hazard in rule.detect(script):
            yield hazard, _move(script, rule.rule, hazard, wishes)


def _move(script: Script, rule: Rule, hazard: Hazard, wishes: Wishes) -> Move:
    tree = (hazard.file or script.file).tree
    is_held_back = rule.safety is Safety.UNSAFE and not script.settings.unsafe
    if hazard.repair and not is_held_back and not wishes.unwanted(hazard.repair):
        message = f"repaired: {hazard.message}"
        return Move(hazard.repair, (Finding.at(tree, hazard.node, rule.code, Kind.MIGRATED, message),))
    hint = f"{hazard.hint}, or run with --unsafe, which does it" if hazard.repair and is_held_back else hazard.hint
    return Move((), (Finding.at(tree, hazard.node, rule.code, Kind.HAZARD, hazard.message, hint),))
