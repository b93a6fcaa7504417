"""A pull request's text: what was moved, what was left and why, and the evidence that it trains the same."""

from __future__ import annotations

from collections.abc import Iterator

from amp_migrate.report.finding import Finding, Kind
from amp_migrate.report.forms.markdown import cell, code, words
from amp_migrate.report.plain import plain
from amp_migrate.report.report import place
from amp_migrate.verify.judge.verdict import Verdict
from amp_migrate.verify.reports import as_github, as_text
from amp_migrate.verify.reports.outcome import Outcome

_FAILED = (Verdict.ORIGINAL_FAILED, Verdict.MIGRATED_FAILED)


def render(outcome: Outcome) -> str:
    """Markdown with a title; whether to open a pull request with it is the reader's to say."""
    return "".join(f"{line}\n" for line in _lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    assessment = outcome.assessment
    yield f"# Train {code(outcome.name)} in mixed precision by `torch.amp`"
    yield ""
    yield f"**{assessment.word}**: {words(assessment.sentence)}."
    if assessment.verdict is not Verdict.PASS:
        yield ""
        yield "This is no evidence that training stays the same."
    for reason in as_text.reasons(assessment):
        yield f"\n{words(reason)}"
    yield from _section("What moves", outcome, Kind.MIGRATED)
    yield from _section("What deserves a look", outcome, Kind.NOTE)
    yield from _section("What stays, and why", outcome, Kind.LEFT)
    yield from _section("What is wrong already, and stays", outcome, Kind.HAZARD)
    if assessment.verdict not in _FAILED:
        yield from _evidence(outcome)
    yield ""
    yield "## To repeat it"
    yield ""
    yield "```console"
    yield f"$ {plain(outcome.command)}"
    yield "```"


def _section(title: str, outcome: Outcome, kind: Kind) -> Iterator[str]:
    found = [finding for finding in outcome.findings if finding.kind is kind]
    if found:
        yield ""
        yield f"## {title}"
        yield ""
        yield from map(_item, found)


def _item(finding: Finding) -> str:
    hint = f" {cell(finding.hint[:1].upper() + finding.hint[1:])}." if finding.hint else ""
    return f"- {code(place(finding))}: {cell(finding.message)} ({finding.code}).{hint}"


def _evidence(outcome: Outcome) -> Iterator[str]:
    assessment, environment = outcome.assessment, outcome.environment
    yield ""
    yield "## Evidence"
    yield ""
    if environment:
        where = "a CPU in the place of the GPU" if environment["stand_in"] else words(str(environment.get("device")))
        yield f"Both scripts ran with PyTorch {environment['torch']}, on {where}."
        yield ""
    yield from as_github.table(outcome)
    for line in as_text.performance(assessment):
        yield f"- {words(line)}"
    if assessment.power:
        yield ""
        yield "Would have been seen:"
        yield ""
        for line in assessment.power:
            yield f"- {words(line)}"
    if assessment.not_checked:
        yield ""
        yield "Not checked:"
        yield ""
        for item in assessment.not_checked:
            yield f"- {words(item)}"
