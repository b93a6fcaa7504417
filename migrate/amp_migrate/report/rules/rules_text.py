"""The rules as a person at a terminal reads them: all of them as a table, one of them as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from amp_migrate.catalog.rule import Rule

_HEAD = ("code", "name", "safety", "summary")
_WIDTH = 100


def table(rules: Sequence[Rule]) -> str:
    """One line for each rule: code, name, safety and summary."""
    rows = [_HEAD, *((rule.code, rule.name, rule.safety.value, rule.summary) for rule in rules)]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = ("  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def page(rule: Rule) -> str:
    """Everything that there is to say about one rule."""
    return "\n".join(_lines(rule)) + "\n"


def _lines(rule: Rule) -> Iterator[str]:
    yield f"{rule.code} {rule.name}"
    yield ""
    yield textwrap.fill(f"{rule.sentence}.", _WIDTH)
    yield ""
    yield textwrap.fill(rule.why, _WIDTH)
    for title, example in (("Before", rule.before), (rule.after_title, rule.after)):
        if example:
            yield ""
            yield f"{title}:"
            yield textwrap.indent(example, "    ")
    yield ""
    yield f"Safety: {rule.safety.value} ({rule.safety.meaning})"
    if rule.asking:
        yield rule.asking
    if rule.after:
        yield f"Needs: PyTorch {rule.torch} or newer"
    for source in rule.sources:
        yield f"Source: {source}"
