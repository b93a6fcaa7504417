"""The rules as Markdown: the pages of the documentation, and what code scanning services show beside a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_migrate.catalog.rule import Rule

_INTRODUCTION = """\
# The rules

Every finding of `amp-migrate` has the code of one of these rules. `--select` and `--ignore` take codes and their
beginnings, `# amp-migrate: ignore[AMP501]` leaves a line as it is, and `amp-migrate --explain AMP501` shows a rule's
page in the terminal. A rule whose safety is "safe" does what the code did; one that is "manual" changes nothing, and
its findings say what to do by hand. The rules of AMP6xx are about hazards: AMP that is there already and used wrongly.
They are reported, and do not make `--check` fail. A rule whose safety is "unsafe" makes the code do what
it was meant to do and did not, and only with `--unsafe`.
"""


def document(rules: Sequence[Rule]) -> str:
    """The page of all rules, each below an anchor of its code in small letters."""
    sections = (f'\n<a id="{rule.anchor}"></a>\n\n## {rule.code} {rule.name}\n\n{body(rule)}' for rule in rules)
    return f"{_INTRODUCTION}\n{table(rules, '')}{''.join(sections)}"


def table(rules: Sequence[Rule], page: str) -> str:
    """One row for each rule, its code a link into `page`, the document of all rules."""
    head = "| code | name | safety | what it finds |\n|---|---|---|---|\n"
    rows = (
        f"| [{rule.code}]({page}#{rule.anchor}) | {rule.name} | {rule.safety.value} | {rule.summary} |\n"
        for rule in rules
    )
    return head + "".join(rows)


def body(rule: Rule) -> str:
    """What there is to say about one rule, without a heading."""
    return "\n".join(_lines(rule)) + "\n"


def _lines(rule: Rule) -> Iterator[str]:
    yield f"{rule.sentence}."
    yield ""
    yield rule.why
    for title, example in (("Before", rule.before), (rule.after_title, rule.after)):
        if example:
            yield ""
            yield f"{title}:"
            yield ""
            yield "```python"
            yield example
            yield "```"
    yield ""
    needs = f" Needs PyTorch {rule.torch} or newer." if rule.after else ""
    asking = f" {rule.asking}" if rule.asking else ""
    yield f"Safety: {rule.safety.value}, {rule.safety.meaning}.{needs}{asking}"
    if rule.sources:
        yield ""
        yield f"Source: {', '.join(f'<{source}>' for source in rule.sources)}"
