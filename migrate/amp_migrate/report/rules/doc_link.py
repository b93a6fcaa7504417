"""Where the page of a rule can be read."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

from amp_migrate.catalog.rule import Rule


def doc_link(rule: Rule) -> str | None:
    """The address of a rule in the documentation that the installed package names; None where it names none.

    `Documentation` in `[project.urls]` is the address of the site, or that of `docs` where a host shows the repository.
    """
    documentation = _documentation()
    if documentation is None:
        return None
    is_hosted = "/blob/" in documentation or "/tree/" in documentation
    return f"{documentation}/rules{'.md' if is_hosted else '/'}#{rule.anchor}"


@cache
def _documentation() -> str | None:
    try:
        named = metadata("amp-migrate").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a checkout that was never installed
        return None
    urls = dict(each.split(", ", 1) for each in named)
    return urls["Documentation"].rstrip("/") if "Documentation" in urls else None
