"""Every rule there is: the pages of the catalog, and the rules that have a file of their own."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from itertools import takewhile

from amp_migrate.catalog import apex_rules, engine_rules, name_rules, step_rules
from amp_migrate.catalog.rule import Rule
from amp_migrate.hazards.hazard_rules import hazard_rules
from amp_migrate.renames.rename import renaming_rules


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule there is, in the order of codes."""
    values = (value for page in (engine_rules, name_rules, apex_rules, step_rules) for value in vars(page).values())
    pages = (value for value in values if isinstance(value, Rule))
    own = (*(each.rule for each in renaming_rules()), *(each.rule for each in hazard_rules()))
    return tuple(sorted((*pages, *own), key=lambda rule: rule.code))


def rules_of(codes: Collection[str]) -> tuple[Rule, ...]:
    """The rules with these codes, in the order of codes."""
    return tuple(rule for rule in all_rules() if rule.code in codes)


def nearest_rule(code: str) -> Rule:
    """The rule whose code begins most like `code`: the rule itself, where `code` is one."""

    def shared(rule: Rule) -> int:
        pairs = zip(rule.code, code, strict=False)
        return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    return max(all_rules(), key=shared)
