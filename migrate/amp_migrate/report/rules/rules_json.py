"""The rules for programs: JSON, each with all that `--explain` says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from amp_migrate.catalog.rule import Rule
from amp_migrate.report.rules.doc_link import doc_link
from amp_migrate.report.rules.rules_text import page


def table(rules: Sequence[Rule]) -> str:
    """A list with an object for each rule."""
    return json.dumps([{**summary(rule), **_more(rule)} for rule in rules], indent=2) + "\n"


def summary(rule: Rule) -> Mapping[str, str | None]:
    """What a report says of a rule. `link` is null where the package names no documentation; `page` is there always."""
    return {
        "code": rule.code,
        "name": rule.name,
        "safety": rule.safety.value,
        "summary": rule.summary,
        "link": doc_link(rule),
        "page": page(rule),
    }


def _more(rule: Rule) -> Mapping[str, Any]:
    return {"before": rule.before, "after": rule.after or None, "since": rule.torch, "on_request": rule.on_request}
