"""Where the page of a rule can be read."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

from amp_migrate.report.rule import Rule


def doc_link(rule: Rule) -> str | None:
    """The address of a rule in the documentation that the installed package names; None where it names none."""
    documentation = _documentation()
    return None if documentation is None else f"{documentation}/rules.md#{rule.anchor}"


@cache
def _documentation() -> str | None:
    try:
        named = metadata("amp-migrate").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a checkout that was never installed
        return None
    urls = dict(each.split(", ", 1) for each in named)
    return urls["Documentation"].rstrip("/") if "Documentation" in urls else None
