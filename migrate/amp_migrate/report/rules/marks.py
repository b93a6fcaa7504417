"""Parts of a page that a program writes, between `<!-- name -->` and `<!-- /name -->`."""

from __future__ import annotations


def between(page: str, name: str, text: str) -> str:
    """The page with `text`, which ends in a newline, between the marks called `name`.

    Raises ValueError where the page has not exactly one pair of them.
    """
    opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, found, rest = page.partition(opening)
    _, ended, after = rest.partition(closing)
    if not found or not ended or opening in rest:
        raise ValueError(f"the page needs the marks {opening.strip()} and {closing.strip()}, once each, in this order")
    return f"{before}{opening}{text}{closing}{after}"
